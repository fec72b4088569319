# SPDX-License-Identifier: Apache-2.0
"""What memory costs from Python, beside numpy.empty: alone, and with every page written once.

The second is what arrays pay: fresh pages of the system are cleared at their first touch, pooled
ones are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core.testing.benchmark import record
from mx_storage import StorageManager

MANAGER = StorageManager("bench")


def pooled(n: int, touch: bool) -> None:
    block: Any = MANAGER.alloc(n)  # a buffer; NumPy's stub of frombuffer names some types only
    if touch:
        np.frombuffer(block, np.uint8)[::4096] = 1


def numpy(n: int, touch: bool) -> None:
    array: np.ndarray[Any, Any] = np.empty(n, np.uint8)
    if touch:
        array[::4096] = 1


def microseconds(function: Callable[[int, bool], None], n: int, touch: bool) -> float:
    repeats = max(5, min(20_000, (64 << 20) // n))
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(repeats):
            function(n, touch)
        best = min(best, (time.perf_counter() - begin) / repeats * 1e6)
    return best


def main() -> None:
    for n in (1000, 100_000, 4 << 20, 64 << 20):
        for touch in (False, True):
            ours, theirs = microseconds(pooled, n, touch), microseconds(numpy, n, touch)
            name = f"{n:,} bytes{', touched' if touch else ''}"
            record(name, ours, "us", baseline="NumPy", ratio=theirs / ours)


if __name__ == "__main__":
    main()
