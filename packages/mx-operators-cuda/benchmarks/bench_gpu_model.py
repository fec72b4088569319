# SPDX-License-Identifier: Apache-2.0
"""A model of a training step of ResNet-18 on an H200, without a GPU: nothing here is measured on one.

How many kernels and products of cuBLAS a step enqueues, and the bytes and operations of its operators by their
declarations, as bound, before passes fuse any. From them the least time that a GPU needs whose limits are those of
NVIDIA's data sheet, and what launching takes. Then what NVRTC says of each kernel for sm_90: registers, spills, shared
memory, and so the share of threads that a multiprocessor holds. Last the planned memory.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from typing import Any

from mx_core import kernels
from mx_core.context import gpu
from mx_core.kernels import KernelCall
from mx_core.testing.benchmark import record
from mx_operators_cuda import nvrtc
from mx_operators_cuda.launch import Launch, Product
from mx_operators_cuda.occupancy import needs, occupancy
from mx_operators_cuda.register import KERNELS
from mx_symbol.graph import Entry
from mx_symbol.memory.cost import flops
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import build, bytes_of
from mx_symbol.testing.networks import IMAGE_NETWORKS

BATCH = 32
#: H200: bytes and float32 operations (no tensor cores) per second, by NVIDIA's data sheet
BANDWIDTH, FLOPS = 4.8e12, 67e12
#: seconds of a launch by the driver; NVIDIA/cuda-python#1959
LAUNCH = 1.57e-6
MIB = 2**20

Step = Launch | Product


class Collector:
    """Stands in place of `make_plan`, and keeps what a plan would enqueue."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(
        self, name: str, context: Any, inputs: Any, outputs: Any, steps: list[Step], **options: Any
    ) -> str:
        self.steps = list(steps)
        return name


def steps_of(call: KernelCall, collector: Collector) -> list[Step]:
    """What the first kernel that accepts a signature would enqueue."""
    for candidate in kernels.candidates(call.op, "gpu"):
        if candidate.make(call) is not None:
            return collector.steps
    raise SystemExit(f"no kernel for {call.op.name} of {', '.join(map(str, call.inputs))}")


def collect() -> Collector:
    """Puts a collector in the place of `make_plan` in every module that has it."""
    for _, make in KERNELS:
        importlib.import_module(f"mx_operators_cuda.{make.split(':')[0]}")
    importlib.import_module("mx_operators_cuda.elementwise")
    made = Collector()
    for name, module in list(sys.modules.items()):
        if name.startswith("mx_operators_cuda.") and hasattr(module, "make_plan"):
            vars(module)["make_plan"] = made
    return made


def report_kernels(label: str, launched: Counter[Any]) -> None:
    """Registers and occupancy of each source, those that a multiprocessor holds fewest of first."""
    rows = []
    for source, times in launched.items():
        compiled = nvrtc.compile_kernel(source.text, source.name, "sm_90", ("--ptxas-options=-v",))
        found = needs(compiled.log)
        share = occupancy(found.registers, found.shared, source.block)
        rows.append((share, source.name, times, source.block, found))
    print(f"{label}: kernel, launches, threads of a block, registers, shared bytes, spilled bytes, occupancy")
    for share, name, times, block, found in sorted(rows, key=lambda row: row[:2]):
        print(
            f"  {name:56} {times:4} {block:4} {found.registers:4} {found.shared:6} {found.spilled:4} {share:6.0%}"
        )
    record(f"{label}: kernels", len(rows), "kernels")
    record(f"{label}: lowest occupancy", min(row[0] for row in rows), "of all threads")
    record(f"{label}: spilled", sum(row[4].spilled for row in rows), "bytes")


def main() -> None:
    """A line for each part of the model."""
    label = f"ResNet-18, training, batch {BATCH}"
    net = IMAGE_NETWORKS["resnet18_v1"]()
    requests = {name: "write" for name in net.list_arguments() if name != "data"}
    graph = build(net.entries, {"data": (BATCH, 3, 224, 224)}, {}, requests, gpu(0))
    collector, launched = collect(), Counter[Any]()
    products, moved, work, seconds = 0, 0, 0.0, 0.0
    for node in graph.schedule:
        assert node.op is not None and node.params is not None
        inputs = tuple(graph.specs[entry] for entry in node.inputs)
        outputs = tuple(graph.specs[Entry(node, i)] for i in range(len(node.op.outputs(node.params))))
        call = KernelCall(node.op, node.params, inputs, outputs, gpu(0), True)
        for step in steps_of(call, collector):
            if isinstance(step, Launch):
                launched[step.source] += 1
            else:
                products += 1
        unread = node.op.shape_only_inputs(node.params)
        bytes_here = sum(bytes_of(spec) for i, spec in enumerate(inputs) if i not in unread)
        bytes_here += sum(map(bytes_of, outputs))
        flops_here = flops(node, graph.specs)
        moved, work = moved + bytes_here, work + flops_here
        seconds += max(bytes_here / BANDWIDTH, flops_here / FLOPS)
    enqueued = launched.total() + products
    record(f"{label}: operators", len(graph.schedule), "operators")
    record(f"{label}: launches", launched.total(), "launches")
    record(f"{label}: products of cuBLAS", products, "products")
    record(f"{label}: bytes by declarations", moved / MIB, "MiB")
    record(f"{label}: products and convolutions", work / 1e9, "GFLOP")
    record(f"{label}: least time by the data sheet of the H200", seconds * 1e3, "ms")
    record(f"{label}: time of launching", enqueued * LAUNCH * 1e3, "ms", baseline="the least time of the GPU",
           ratio=seconds / (enqueued * LAUNCH))  # fmt: skip
    plan = make_schedule(graph, True).plan
    record(f"{label}: planned memory", plan.total_bytes / MIB, "MiB", baseline="largest live set",
           ratio=plan.live_bytes / plan.total_bytes)  # fmt: skip
    report_kernels(label, launched)


if __name__ == "__main__":
    main()
