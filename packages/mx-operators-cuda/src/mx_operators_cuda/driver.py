# SPDX-License-Identifier: Apache-2.0
"""Facts of the NVIDIA driver about this machine, asked through the native library once per process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

#: where the kernel's part of the driver shows itself: Linux, Windows' subsystem for it
_NODES = ("/dev/nvidiactl", "/dev/dxg")


@dataclass(frozen=True)
class Driver:
    """The driver's answer.

    Parameters
    ----------
    gpus : int
        GPUs it offers this process; 0 when `problem` is set.
    version : str
        Newest CUDA version it supports, `13.0`; empty without a driver.
    problem : str
        Why there is no GPU; empty when there is one.
    """

    gpus: int
    version: str
    problem: str


@lru_cache(maxsize=1)
def driver() -> Driver:
    """Initialises the driver, and no GPU, where there is one."""
    from mx_operators_cuda import _native

    gpus, number, problem = _native.probe()
    version = f"{number // 1000}.{number % 1000 // 10}" if number else ""
    return Driver(gpus, version, problem)


def count() -> int:
    """GPUs of this machine; 0 without a driver. Never fails."""
    return driver().gpus


def installed() -> bool:
    """True when a driver seems to be there; loads nothing."""
    return bool(os.environ.get("MX_CUDA_DRIVER")) or any(Path(node).exists() for node in _NODES)
