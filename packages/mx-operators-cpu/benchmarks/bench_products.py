# SPDX-License-Identifier: Apache-2.0
"""How fast is FullyConnected, beside bare oneDNN with packed weights and NumPy's matmul?

Run: `python benchmarks/bench_products.py`. Prints GFLOP/s (2 flops per multiply-add).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

from mx_core import operators

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "onednn"))
import plans
from limits import best, library

#: rows, depth, columns
SIZES = [(1, 2048, 1000), (32, 2048, 1000), (64, 784, 128), (128, 1024, 4096), (512, 512, 512), (1024,) * 3]


def measure(limit: ctypes.CDLL, m: int, k: int, n: int) -> tuple[float, float, float]:
    """Seconds of ours, of bare oneDNN, and of NumPy."""
    op = operators.get("FullyConnected")
    x, w, y = (np.ones(s, np.float32) for s in ((m, k), (n, k), (m, n)))
    plan = plans.prepare(op, op.Param(num_hidden=n, no_bias=True), [x, w], [y])
    ours = best(lambda: plans.run(plan, [x, w], [y]))
    bare = limit.product_limit(*map(ctypes.c_int64, (m, k, n)), 7)
    return ours, bare, best(lambda: np.matmul(x, w.T, out=y))


def main() -> None:
    """Prints the table."""
    limit = library()
    print(f"{'m x k x n':>18} {'ours':>8} {'of bare':>8} {'of NumPy':>9}")
    for m, k, n in SIZES:
        ours, bare, theirs = measure(limit, m, k, n)
        rate = 2 * m * k * n / ours / 1e9
        print(f"{f'{m} x {k} x {n}':>18} {rate:8.0f} {bare / ours:8.0%} {theirs / ours:9.0%}")


if __name__ == "__main__":
    main()
