# SPDX-License-Identifier: Apache-2.0
"""Planned memory beside what MXNet 1.9.1 plans for the same networks, the largest live set, and no sharing.

MiB of intermediate values, batch 32, images of 224 x 224; arguments, outputs and gradients not counted. Then
what recomputation can do: half of the plan, and the least, each with the estimated cost of what runs again.
"""

from __future__ import annotations

import time

from networks import IMAGE_NETWORKS, unrolled_lstm

from mx_core.context import cpu
from mx_symbol import sym
from mx_symbol.bound_graph import build, optimized
from mx_symbol.recompute import fit_budget, least_memory
from mx_symbol.schedule import make_schedule

BATCH = 32
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
        ratio = f"{plan.total_bytes / MIB / foreign:6.2f}" if foreign else "     -"
        print(
            f"{name:14} {'training' if training else 'inference':9} {plan.total_bytes / MIB:8.0f} "
            f"{plan.live_bytes / MIB:8.0f} {plan.naive_bytes / MIB:8.0f} {foreign or '-':>6} {ratio} {seconds:8.2f}"
        )


def report_budgets(name: str, net: sym.Symbol, shapes: dict[str, tuple[int, ...]]) -> None:
    """A line for the training plan under budgets."""
    bound = build(net.entries, shapes, {}, {n: "write" for n in net.list_arguments() if n not in shapes})
    graph = optimized(bound, True, True, cpu())
    planned = make_schedule(graph, True).plan.total_bytes
    began = time.perf_counter()
    least = least_memory(graph)
    half = fit_budget(graph, max(planned // 2, least.total_bytes))
    seconds = time.perf_counter() - began
    columns = "".join(f"{found.total_bytes / MIB:9.0f} {found.extra_cost:+8.1%}" for found in (half, least))
    print(f"{name:14} {planned / MIB:8.0f}{columns} {seconds:8.2f}")


def main() -> None:
    """Plans and prints."""
    networks: dict[str, tuple[sym.Symbol, dict[str, tuple[int, ...]]]] = {
        name: (make(), {"data": (BATCH, 3, 224, 224)}) for name, make in IMAGE_NETWORKS.items()
    }
    states = {f"{s}{layer}": (BATCH, 650) for s in "hc" for layer in range(2)}
    networks["unrolled LSTM"] = (unrolled_lstm(), {"data": (BATCH, 35), **states})
    print("network        part       planned     live    naive  MXNet  ratio  seconds")
    for name, (net, shapes) in networks.items():
        report(name, net, shapes, MXNET.get(name))
    print("\nnetwork         planned     half     cost    least     cost  seconds")
    for name, (net, shapes) in networks.items():
        report_budgets(name, net, shapes)


if __name__ == "__main__":
    main()
