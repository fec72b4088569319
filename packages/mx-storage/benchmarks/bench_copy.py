# SPDX-License-Identifier: Apache-2.0
"""Question: how fast is a big copy between arrays, beside memcpy, NumPy and PyTorch?

Each copies between two arrays whose pages were written before; GB/s count bytes read and written. The ratio
is our bandwidth over theirs.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

import mx
from mx_core.testing.benchmark import record


def seconds(copies: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Best time of each, in turns, so that what else the machine does falls on all."""
    best = dict.fromkeys(copies, float("inf"))
    for _ in range(rounds):
        for name, copy in copies.items():
            begin = time.perf_counter()
            copy()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def candidates(n: int) -> dict[str, Callable[[], object]]:
    """Copies of `n` bytes by name, ours first."""
    source, target = mx.nd.ones((n // 4,)), mx.nd.zeros((n // 4,))
    mx.nd.waitall()
    a, b = np.ones(n // 4, np.float32), np.zeros(n // 4, np.float32)

    def ours() -> None:
        source.copyto(target)
        target.wait_to_read()

    found: dict[str, Callable[[], object]] = {
        "mx": ours,
        "memcpy": lambda: ctypes.memmove(b.ctypes.data, a.ctypes.data, n),
        "NumPy": lambda: np.copyto(b, a),
    }
    try:
        import torch
    except ImportError:
        return found
    x, y = torch.ones(n // 4), torch.zeros(n // 4)
    found["PyTorch"] = lambda: y.copy_(x)
    return found


def main() -> None:
    for n in (4 << 20, 64 << 20, 512 << 20):
        times = seconds(candidates(n))
        bandwidth = {name: 2 * n / t / 1e9 for name, t in times.items()}
        ours = bandwidth.pop("mx")
        for name, rate in bandwidth.items():
            record(f"{n >> 20} MiB", ours, "GB/s", baseline=name, ratio=ours / rate)


if __name__ == "__main__":
    main()
