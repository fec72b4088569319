# SPDX-License-Identifier: Apache-2.0
"""Do branches of a graph pay side by side, sharing the cores, or one after the other on all of them?

The blocks of an Inception network (Szegedy et al., Going Deeper with Convolutions, CVPR 2015) at batch 1, where there
is least work for many cores in one convolution, and towers of small products, where there is hardly any. Both
ways run the same graph. Ratio: time one after the other to time side by side; above 1, side by side pays. `auto` is
what the estimate chooses. The arenas are what the programs take: one after the other with least memory, side by side in
the mode most parallel.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import services
from mx_core.testing.benchmark import record
from mx_ndarray import nd
from mx_symbol import Symbol, sym
from mx_symbol.graph.planning import n_cores
from mx_symbol.runtime.executor import Executor
from mx_symbol.testing.networks import towers

#: channels and extent of the input, then the filters of the four branches
BLOCKS = (
    (192, 28, (64, 96, 128, 16, 32, 32)), (480, 14, (192, 96, 208, 16, 48, 64)),
    (832, 7, (384, 192, 384, 48, 128, 128)),
)  # fmt: skip
TURNS, REPEATS = 60, 4
MIB = 2**20


def unit(x: Symbol, filters: int, window: int, name: str) -> Symbol:
    """A convolution and its activation."""
    pad = window // 2
    made = sym.Convolution(x, num_filter=filters, kernel=(window, window), pad=(pad, pad), name=name)
    return sym.relu(made)


def block(filters: Sequence[int]) -> Symbol:
    """1×1; 1×1 and 3×3; 1×1 and 5×5; pooling and 1×1."""
    x = sym.Variable("data")
    one, three_in, three, five_in, five, pooled = filters
    pool = sym.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="max")
    return sym.Concat(
        unit(x, one, 1, "one"), unit(unit(x, three_in, 1, "three_in"), three, 3, "three"),
        unit(unit(x, five_in, 1, "five_in"), five, 5, "five"), unit(pool, pooled, 1, "pooled"), dim=1,
    )  # fmt: skip


def bound(symbol: Symbol, shape: tuple[int, ...], **planning: Any) -> Executor:
    """A program with values in its arrays, run once."""
    executor = symbol.simple_bind(data=shape, grad_req="null", **planning)
    for array in executor.arg_arrays:
        array[:] = np.random.default_rng(0).standard_normal(array.shape) * 0.05
    executor.forward()
    nd.waitall()
    return executor


def seconds(executor: Executor) -> float:
    """Of one run."""
    began = time.perf_counter()
    for _ in range(REPEATS):
        executor.forward()
        nd.waitall()
    return (time.perf_counter() - began) / REPEATS


def main() -> None:
    """Every graph, in turns."""
    engine: Any = services.engine()
    print(f"{n_cores()} cores, {engine.workers} workers")
    rows: list[tuple[str, Symbol, tuple[int, ...]]]
    rows = [(f"{c} channels, {e} x {e}", block(f), (1, c, e, e)) for c, e, f in BLOCKS]
    rows.append(("8 towers, width 64", towers(8, 6, 64), (16, 64)))
    rows.append(("4 towers, width 256", towers(4, 6, 256), (16, 256)))
    for name, symbol, shape in rows:
        ways = [
            bound(symbol, shape, branches="never"),
            bound(symbol, shape, branches="always", memory_mode="most_parallel"),
        ]
        n_branches = len(ways[1].branches(False))
        chosen = bound(symbol, shape, branches="auto", memory_mode="most_parallel").branches(False)
        auto = "beside" if chosen else "turns"
        best = [float("inf")] * 2
        for _ in range(TURNS):
            best = [min(known, seconds(way)) for known, way in zip(best, ways, strict=True)]
        arenas = [executor.memory_plan(False).total_bytes / MIB for executor in ways]
        ratio = best[0] / best[1]
        record(f"{name}, {n_branches} branches", best[1] * 1e6, "us", baseline="in turn", ratio=ratio)
        print(f"    the estimate chooses {auto}; arenas of {arenas[0]:.2f} and {arenas[1]:.2f} MiB")


if __name__ == "__main__":
    main()
