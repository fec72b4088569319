# SPDX-License-Identifier: Apache-2.0
"""How long binding, optimising and planning take as graphs grow: seconds per 1000 nodes should stay level."""

from __future__ import annotations

import time

from mx_core.context import cpu
from mx_core.testing.benchmark import record
from mx_symbol import sym
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import build, optimized


def residual_network(blocks: int) -> sym.Symbol:
    """Blocks of three nodes with a shortcut each."""
    net = sym.Variable("x")
    for i in range(blocks):
        net = sym.tanh(sym.relu(net, name=f"r{i}"), name=f"t{i}") + net
    return net


def main() -> None:
    """Measures and prints."""
    for blocks in (300, 1000, 3300, 10_000):
        net = residual_network(blocks)
        began = time.perf_counter()
        graph = build(net.entries, {"x": (64, 64)}, {}, {"x": "write"})
        built = time.perf_counter()
        chosen = optimized(graph, True, True, cpu())
        improved = time.perf_counter()
        plan = make_schedule(chosen, True).plan
        done = time.perf_counter()
        per = (done - began) / len(graph.schedule) * 1000
        share = plan.total_bytes / max(plan.naive_bytes, 1)
        times = f"{built - began:9.2f} {improved - built:12.2f} {done - improved:8.2f}"
        record(f"{graph.n_forward:,} nodes", per, "s/1000", baseline="no sharing (bytes)", ratio=1 / share)
        print(f"    build, passes, plan: {times} s")


if __name__ == "__main__":
    main()
