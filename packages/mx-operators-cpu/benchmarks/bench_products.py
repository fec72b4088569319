# SPDX-License-Identifier: Apache-2.0
"""How fast is FullyConnected, beside bare oneDNN with packed weights and NumPy's matmul?

Run: `python benchmarks/bench_products.py`. Prints GFLOP/s (2 flops per multiply-add).
"""

from __future__ import annotations

import ctypes

import numpy as np
from calls import caller
from limits import best, library

from mx_core.testing.benchmark import record

#: rows, depth, columns
SIZES = [(1, 2048, 1000), (32, 2048, 1000), (64, 784, 128), (128, 1024, 4096), (512, 512, 512), (1024,) * 3]


def measure(limit: ctypes.CDLL, m: int, k: int, n: int) -> tuple[float, float, float]:
    """Seconds of ours, of bare oneDNN, and of NumPy."""
    x, w, y = (np.ones(s, np.float32) for s in ((m, k), (n, k), (m, n)))
    run, _, _ = caller("FullyConnected", {"num_hidden": n, "no_bias": True}, [x, w], into=[y])
    ours = best(run)
    bare = limit.product_limit(*map(ctypes.c_int64, (m, k, n)), 7)
    return ours, bare, best(lambda: np.matmul(x, w.T, out=y))


def main() -> None:
    """Prints the records."""
    limit = library()
    for m, k, n in SIZES:
        ours, bare, theirs = measure(limit, m, k, n)
        rate = 2 * m * k * n / ours / 1e9
        for baseline, other in (("bare oneDNN", bare), ("NumPy", theirs)):
            record(f"{m} x {k} x {n}", rate, "GFLOP/s", baseline=baseline, ratio=other / ours)


if __name__ == "__main__":
    main()
