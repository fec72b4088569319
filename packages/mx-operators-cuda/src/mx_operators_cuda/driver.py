# SPDX-License-Identifier: Apache-2.0
"""What the NVIDIA driver says of this machine, asked through ctypes: no CUDA package is imported."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import lru_cache

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


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
    """Asks once per process; initialises the driver, and no device, where there is one."""
    try:
        cuda = ctypes.CDLL(_LIBRARY)
    except OSError:
        return Driver(0, "", f"no NVIDIA driver was found (there is no {_LIBRARY})")
    number = ctypes.c_int()
    version = ""
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number))
    if status:
        return Driver(0, version, f"the NVIDIA driver found no GPU ({_name(cuda, status)})")
    if number.value == 0:
        return Driver(0, version, "the NVIDIA driver found no GPU")
    return Driver(number.value, version, "")


def count() -> int:
    """GPUs of this machine; 0 without a driver. Never fails."""
    return driver().gpus


def _name(cuda: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    if cuda.cuGetErrorName(status, ctypes.byref(text)) == 0 and text.value:
        return f"{text.value.decode()}, {status}"
    return f"error {status}"
