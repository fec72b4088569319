# SPDX-License-Identifier: Apache-2.0
"""Do branches of a graph pay side by side, one core each, or one after the other on all cores?

The blocks of an Inception network (Szegedy et al., Going Deeper with Convolutions, CVPR 2015) at batch 1, where there
is least work for many cores in one convolution. Both ways run the same programs of the same layers. Ratio: time one
after the other to time side by side; above 1, side by side pays.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import services
from mx_ndarray import nd
from mx_symbol import Symbol, sym
from mx_symbol.executor import Executor

#: channels and extent of the input, then the filters of the four branches
BLOCKS = (
    (192, 28, (64, 96, 128, 16, 32, 32)), (480, 14, (192, 96, 208, 16, 48, 64)),
    (832, 7, (384, 192, 384, 48, 128, 128)),
)  # fmt: skip
TURNS, REPEATS = 60, 4


def unit(x: Symbol, filters: int, window: int, name: str) -> Symbol:
    """A convolution and its activation."""
    pad = window // 2
    made = sym.Convolution(x, num_filter=filters, kernel=(window, window), pad=(pad, pad), name=name)
    return sym.relu(made)


def branches(filters: Sequence[int]) -> list[Symbol]:
    """1×1; 1×1 and 3×3; 1×1 and 5×5; pooling and 1×1."""
    x = sym.Variable("data")
    one, three_in, three, five_in, five, pooled = filters
    pool = sym.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="max")
    return [
        unit(x, one, 1, "one"), unit(unit(x, three_in, 1, "three_in"), three, 3, "three"),
        unit(unit(x, five_in, 1, "five_in"), five, 5, "five"), unit(pool, pooled, 1, "pooled"),
    ]  # fmt: skip


def bound(symbols: Sequence[Symbol], shape: tuple[int, ...], threads: int) -> list[Executor]:
    """A program per symbol, prepared for that many threads."""
    services.engine().num_omp_threads_per_worker = threads
    made = []
    for symbol in symbols:
        executor = symbol.simple_bind(data=shape, grad_req="null")
        for array in executor.arg_arrays:
            array[:] = np.random.default_rng(0).standard_normal(array.shape)
        executor.forward()
        made.append(executor)
    nd.waitall()
    return made


def seconds(executors: Sequence[Executor], threads: int) -> float:
    """Of one run of all of them."""
    services.engine().num_omp_threads_per_worker = threads
    began = time.perf_counter()
    for _ in range(REPEATS):
        for executor in executors:
            executor.forward()
        nd.waitall()
    return (time.perf_counter() - began) / REPEATS


def main() -> None:
    """Every block, in turns."""
    engine: Any = services.engine()
    cores = engine.num_omp_threads_per_worker
    print("    channels  extent   one after the other us   side by side us   ratio")
    for channels, extent, filters in BLOCKS:
        parts = branches(filters)
        shape = (1, channels, extent, extent)
        whole = bound([sym.Group(parts)], shape, cores)
        halves = bound([parts[1], sym.Group([parts[0], *parts[2:]])], shape, max(cores // 2, 1))
        one = two = float("inf")
        for _ in range(TURNS):
            one = min(one, seconds(whole, cores))
            two = min(two, seconds(halves, max(cores // 2, 1)))
        print(f"{channels:12} {extent:7} {one * 1e6:24.0f} {two * 1e6:17.0f} {one / two:7.2f}")
    engine.num_omp_threads_per_worker = cores


if __name__ == "__main__":
    main()
