# SPDX-License-Identifier: Apache-2.0
"""Loads the native part with the OpenMP runtime it shares with the rest of the process."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

#: How team members wait. They spin 2,000 rounds before they sleep, about 20 microseconds: long enough to bridge
#: the regions of one primitive, short enough to leave the cores to others between operations. Where a second team
#: exists, as when another worker of the engine or the program itself has opened a region, libgomp cuts this to 100
#: rounds under its default policy, and both threads sleep at every region; under `active` to 1,000.
WAITING = {"GOMP_SPINCOUNT": "2000", "OMP_WAIT_POLICY": "active"}

_BUNDLED = Path(__file__).parent / "lib" / "fallback" / "libgomp.so.1"


def _load_openmp() -> None:
    """Loads `libgomp.so.1`: the copy already in the process, the system's, else the bundled one.

    All three answer to one SONAME, so the process never holds two teams. The runtime reads its
    settings once, when it is loaded; ours yield to those of the user and are taken back at once.
    """
    ours = WAITING.keys().isdisjoint(os.environ)
    if ours:
        os.environ.update(WAITING)
    try:
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            ctypes.CDLL(str(_BUNDLED))
    finally:
        if ours:
            for name in WAITING:
                del os.environ[name]


_load_openmp()

from mx_operators_cpu import _native as native  # noqa: E402  (needs the runtime loaded above)

__all__ = ["native"]
