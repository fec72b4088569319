# SPDX-License-Identifier: Apache-2.0
"""Planned memory beside what MXNet 1.9.1 plans for the same networks, the largest live set, and no sharing.

MiB of intermediate values, batch 32, images of 224 x 224; arguments, outputs and gradients not counted. Then
what recomputation can do: half of the plan, and the least, each with the estimated cost of what runs again. Last the
time that it really takes: a training step without a budget and in half the memory, in turns; images in a smaller batch.
"""

from __future__ import annotations

import time

from mx_core.context import cpu
from mx_core.testing.benchmark import record
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.memory.recompute import fit_budget, least_memory
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import build, optimized
from mx_symbol.testing.networks import IMAGE_NETWORKS, unrolled_lstm

BATCH = 32
#: batch and turns of what is timed
SMALL, TURNS = 4, 5
#: MXNet 1.9.1: training, inference
MXNET = {
    "resnet18_v1": (753, 226),
    "resnet50_v1": (2772, 300),
    "vgg16": (2427, 910),
    "mobilenet1.0": (1329, 202),
    "densenet121": (4165, 267),
}
MIB = 2**20


def report(
    name: str, net: sym.Symbol, shapes: dict[str, tuple[int, ...]], mxnet: tuple[int, int] | None
) -> None:
    """A line each for training and inference."""
    for training in (True, False):
        requests = {n: "write" for n in net.list_arguments() if n not in shapes} if training else {}
        began = time.perf_counter()
        graph = optimized(build(net.entries, shapes, {}, requests), training, training, cpu())
        plan = make_schedule(graph, training).plan
        seconds = time.perf_counter() - began
        foreign = mxnet[0 if training else 1] if mxnet else None
        label, planned = f"{name}, {'training' if training else 'inference'}", plan.total_bytes / MIB
        if foreign:
            record(label, planned, "MiB", baseline="MXNet 1.9.1", ratio=foreign / planned)
        record(label, planned, "MiB", baseline="no sharing", ratio=plan.naive_bytes / plan.total_bytes)
        record(label, planned, "MiB", baseline="largest live set", ratio=plan.live_bytes / plan.total_bytes)
        record(f"{label}: planning", seconds, "s")


def report_budgets(name: str, net: sym.Symbol, shapes: dict[str, tuple[int, ...]]) -> None:
    """A line for the training plan under budgets."""
    bound = build(net.entries, shapes, {}, {n: "write" for n in net.list_arguments() if n not in shapes})
    graph = optimized(bound, True, True, cpu())
    planned = make_schedule(graph, True).plan.total_bytes
    began = time.perf_counter()
    least = least_memory(graph)
    half = fit_budget(graph, max(planned // 2, least.total_bytes))
    seconds = time.perf_counter() - began
    for aim, found in (("half", half), ("least", least)):
        label, ratio = f"{name}, {aim} memory", planned / found.total_bytes
        record(label, found.total_bytes / MIB, "MiB", baseline="all kept", ratio=ratio)
        record(f"{label}: estimated cost", 100 * found.extra_cost, "%")
    record(f"{name}: both budgets", seconds, "s")


def report_time(name: str, net: sym.Symbol, shapes: dict[str, tuple[int, ...]]) -> None:
    """A line with the estimated and the measured cost of half the memory."""
    requests = {n: "null" if n in shapes else "write" for n in net.list_arguments()}
    free = net.simple_bind(cpu(), requests, **shapes)
    plan = free.memory_plan()
    graph = optimized(
        build(net.entries, shapes, {}, {n: r for n, r in requests.items() if r != "null"}), True, True, cpu()
    )
    budget = max(plan.total_bytes // 2, least_memory(graph).total_bytes)
    tight = net.simple_bind(cpu(), requests, memory_budget=budget, **shapes)
    times = {free: float("inf"), tight: float("inf")}
    for executor in (free, tight):
        for array in executor.arg_arrays:
            array[:] = 0.01
    for _ in range(TURNS):
        for executor in times:
            began = time.perf_counter()
            executor.forward(is_train=True)
            executor.backward([nd.ones(output.shape) for output in executor.outputs])
            nd.waitall()
            times[executor] = min(times[executor], time.perf_counter() - began)
    estimate = fit_budget(graph, budget).extra_cost
    less = tight.memory_plan().total_bytes
    label = f"{name}, {less / plan.total_bytes:.0%} of the memory"
    record(label, times[tight] * 1e3, "ms", baseline="all kept", ratio=times[free] / times[tight])
    record(f"{label}: estimated cost", 100 * estimate, "%")


def main() -> None:
    """Plans and prints."""
    networks: dict[str, tuple[sym.Symbol, dict[str, tuple[int, ...]]]] = {
        name: (make(), {"data": (BATCH, 3, 224, 224)}) for name, make in IMAGE_NETWORKS.items()
    }
    states = {f"{s}{layer}": (BATCH, 650) for s in "hc" for layer in range(2)}
    networks["unrolled LSTM"] = (unrolled_lstm(), {"data": (BATCH, 35), **states})
    for name, (net, shapes) in networks.items():
        report(name, net, shapes, MXNET.get(name))
    for name, (net, shapes) in networks.items():
        report_budgets(name, net, shapes)
    print(f"images: batch {SMALL}")
    for name, (net, shapes) in networks.items():
        small = name in IMAGE_NETWORKS
        report_time(name, net, {k: (SMALL, *s[1:]) if small else s for k, s in shapes.items()})


if __name__ == "__main__":
    main()
