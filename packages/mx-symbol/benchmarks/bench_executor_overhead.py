# SPDX-License-Identifier: Apache-2.0
"""What a call costs where computing costs nothing, beside other frameworks, and what a node costs.

Two fully connected layers on 4 x 8 values: microseconds from the call to the result, of an executor, of a `CachedOp`
and of the frameworks that are installed (as in bench_networks.py). Then a chain of additions on 16 elements without
fusion: microseconds per node, beside the same operators called one by one.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from contest.ours import fill
from contest.rivals import start
from contest.task import Task, write_task
from contest.timing import turn

from mx_core.testing.benchmark import record, spread
from mx_ndarray import NDArray, nd
from mx_symbol import CachedOp, sym

NODES = 200
ROUNDS = 200
TURNS, CALLS = 3, 2000


def best(run: Callable[[], object]) -> float:
    """Seconds of the quickest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def calls() -> None:
    """A line per way to call a small network."""
    net: Any = sym.FullyConnected(sym.Variable("data"), num_hidden=8)
    net = sym.Activation(net, act_type="relu")
    net = sym.FullyConnected(net, num_hidden=8)
    executor = net.simple_bind(grad_req="null", data=(4, 8))
    arrays = fill(executor, lambda rng: rng.standard_normal((4, 8)), {})
    op = CachedOp(net)
    call = cast("Callable[..., NDArray]", op)  # of a single output
    inputs = [executor.arg_dict[name] for name in op.input_names]

    def bound() -> None:
        executor.forward()[0].wait_to_read()

    def cached() -> None:
        call(*inputs).wait_to_read()

    with tempfile.TemporaryDirectory() as folder:
        expected = executor.forward()[0].asnumpy()
        write_task(Path(folder), net, executor._graph.specs, arrays, ["data"], expected)
        rivals, missing = start(Task(Path(folder), False))
        ways: dict[str, Callable[[int], list[float]]] = {
            "executor": partial(turn, bound), "CachedOp": partial(turn, cached),
        }  # fmt: skip
        ways |= {rival.name: rival.measure for rival in rivals}
        taken = {name: [t for _ in range(TURNS) for t in measure(CALLS)] for name, measure in ways.items()}
        for rival in rivals:
            rival.stop()
    times = {name: statistics.median(values) for name, values in taken.items()}
    for name in ("executor", "CachedOp"):
        for rival in rivals:
            ratio = times[rival.name] / times[name]
            noise = (spread(taken[name]) + spread(taken[rival.name])) * ratio
            record(f"a call, {name}", times[name] * 1e6, "us", baseline=rival.name, ratio=ratio, spread=noise)
        if not rivals:
            record(f"a call, {name}", times[name] * 1e6, "us")
    for line in missing:
        print(f"missing: {line}")


def nodes() -> None:
    """What one of many nodes costs."""
    net = sym.Variable("x")
    for _ in range(NODES):
        net = net + 1
    executor = net.simple_bind(grad_req="null", passes="none", x=(16,))
    x = nd.ones((16,))

    def symbolic() -> None:
        executor.forward()
        executor.outputs[0].wait_to_read()

    def imperative() -> None:
        y = x
        for _ in range(NODES):
            y = y + 1
        y.wait_to_read()

    program, single = best(symbolic) / NODES, best(imperative) / NODES
    record("a node of a program", program * 1e6, "us", baseline="an imperative call", ratio=single / program)


if __name__ == "__main__":
    calls()
    nodes()
