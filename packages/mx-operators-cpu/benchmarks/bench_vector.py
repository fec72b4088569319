# SPDX-License-Identifier: Apache-2.0
"""How near to memory bandwidth do the vector kernels run on arrays that no cache holds?

Bytes are those of inputs and outputs. Ratios are to NumPy's copy of the same size, which runs on one
thread, and to the NumPy function.

    python bench_vector.py [--mib 256] [--threads 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mx_core import _native
from mx_core import expression as X
from mx_core.testing.benchmark import record
from mx_operators_cpu.library import native

Function = Callable[..., Any]


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def chain(x: Any) -> Any:
    """Eight operations."""
    return X.exp(-X.square(x) * 0.5) + X.tanh(x) * X.sigmoid(x) - X.relu(x)


def numpy_chain(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The same with NumPy, operation by operation."""
    y: np.ndarray = np.exp(-np.square(x) * 0.5) + np.tanh(x) * (1 / (1 + np.exp(-x))) - np.maximum(x, 0)
    return y


CASES: list[tuple[str, int, Function, Function | None]] = [
    ("add", 2, lambda x, y: x + y, np.add),
    ("multiply by a number", 1, lambda x: x * 2.0, lambda x, out: np.multiply(x, 2.0, out=out)),
    ("greater", 2, lambda x, y: x > y, None),
    ("relu", 1, X.relu, lambda x, out: np.maximum(x, 0, out=out)),
    ("exp", 1, X.exp, np.exp),
    ("log", 1, X.log, np.log),
    ("tanh", 1, X.tanh, np.tanh),
    ("sigmoid", 1, X.sigmoid, None),
    ("erf", 1, X.erf, None),
    ("sin", 1, X.sin, np.sin),
    ("chain of 8", 1, chain, numpy_chain),
]


def plan_run(
    plan: object, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
) -> float:
    """Seconds of one run."""
    return best(lambda: _native.run_plan(plan, inputs, outputs, [1] * len(outputs), threads=threads))


def report(name: str, size: float, seconds: float, copy: float, other: float | None) -> None:
    """One line: bandwidth and the two ratios."""
    speed = size / seconds / 1e9
    record(name, speed, "GB/s", baseline="copy", ratio=speed / copy)
    if other is not None:
        record(name, speed, "GB/s", baseline="NumPy", ratio=other / seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=256, help="MiB of one array")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    n = options.mib << 18
    rng = np.random.default_rng(0)
    x, y = (rng.random(n, np.float32) + np.float32(0.5) for _ in range(2))
    out = np.zeros_like(x)
    copy = 2 * x.nbytes / best(lambda: np.copyto(out, x)) / 1e9
    print(f"{native.instruction_set()}, {options.threads} threads, NumPy's copy {copy:.1f} GB/s")
    for name, k, function, other in CASES:
        inputs = [x, y][:k]
        expression = X.trace(function, k)
        plan = native.expression_plan(expression.serialized, [(x.shape, 0)] * k, [(x.shape, 0)])
        seconds = plan_run(plan, inputs, [out], options.threads)
        theirs = None if other is None else best(partial(other, *inputs, out=out), 2)
        report(name, (k + 1) * x.nbytes, seconds, copy, theirs)
    reductions(x, copy, options.threads)
    transpose(x, out, copy, options.threads)


def reductions(x: np.ndarray, copy: float, threads: int) -> None:
    """Sums over everything, rows, columns."""
    square = x.reshape(1024, -1)
    for name, reduced in (("sum", (0, 1)), ("sum of rows", (1,)), ("sum of columns", (0,))):
        total = np.zeros([e for axis, e in enumerate(square.shape) if axis not in reduced] or 1, np.float32)
        marks = [axis in reduced for axis in range(2)]
        plan = native.reduce_plan([(square.shape, 0)], [(total.shape, 0)], "sum", marks)
        theirs = best(partial(square.sum, reduced), 2)
        report(name, x.nbytes, plan_run(plan, [square], [total], threads), copy, theirs)


def transpose(x: np.ndarray, out: np.ndarray, copy: float, threads: int) -> None:
    """A matrix copied with its axes exchanged."""
    square = x.reshape(1024, -1)
    flat = out.reshape(square.shape[::-1])
    moves = [(0, 0, flat.shape, (1, square.shape[1]), (flat.shape[1], 1), 0, 0)]
    plan = native.move_plan([(square.shape, 0)], [(flat.shape, 0)], moves)
    theirs = best(lambda: np.copyto(flat, square.T), 2)
    report("transpose", 2 * x.nbytes, plan_run(plan, [square], [flat], threads), copy, theirs)


if __name__ == "__main__":
    main()
