# SPDX-License-Identifier: Apache-2.0
"""Networks beside other frameworks, float32 and bfloat16, in one run and in turns.

`python bench_networks.py [network/batch/mode[/type] ...]`, for example `resnet50_v1/1/inference`. Each row has
images (sequences, words) per second, GFLOP/s of the direct computation, how near we come to the limit
(`contest.ours.Alone`) and to that of oneDNN's direct convolutions, which minimal filtering exceeds, the ratio to
the best rival, and below it where our time goes. A training step is forward and backward; all parameters get gradients.
Rivals run in Pythons of their own: MX_BENCH_TORCH_PYTHON, MX_BENCH_JAX_PYTHON, MX_BENCH_ONNXRUNTIME_PYTHON,
MX_BENCH_OPENVINO_PYTHON, MX_BENCH_MXNET_PYTHON, or this one where they are not given. In bfloat16 rivals keep
weights in it, or convert where they see fit (OpenVINO); we run the pass `bfloat16` or, to train, `amp`,
with parameters in float32.
All rows take about a quarter of an hour on two cores: `nox -s bench -- networks --limit 1500`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from contest import Task, start, write_task
from contest.ours import Alone, fill
from contest.timing import turn

from mx_ndarray import nd
from mx_symbol.memory.cost import flops
from mx_symbol.runtime.executor import Executor
from mx_symbol.testing.networks import IMAGE_NETWORKS, lstm_language_model, transformer_encoder

#: network, batch, mode, type
ROWS = (
    ("resnet50_v1", 1, "inference", "float32"), ("resnet18_v1", 16, "training", "float32"),
    ("transformer", 8, "training", "float32"), ("lstm", 20, "training", "float32"),
    ("mobilenet1.0", 1, "inference", "float32"), ("resnet50_v1", 32, "inference", "float32"),
    ("transformer", 8, "inference", "float32"), ("vgg16", 1, "inference", "float32"),
    ("lstm", 20, "inference", "float32"), ("resnet50_v1", 1, "inference", "bfloat16"),
    ("resnet50_v1", 32, "inference", "bfloat16"), ("mobilenet1.0", 1, "inference", "bfloat16"),
    ("vgg16", 1, "inference", "bfloat16"), ("transformer", 8, "inference", "bfloat16"),
    ("lstm", 20, "inference", "bfloat16"), ("resnet18_v1", 16, "training", "bfloat16"),
    ("transformer", 8, "training", "bfloat16"), ("lstm", 20, "training", "bfloat16"),
)  # fmt: skip
TURNS = 5
#: between turns, seconds: until idle threads of the last one have stopped spinning
PAUSE = 0.25
STEPS = 35
PASSES = {"inference": "+bfloat16", "training": "+amp"}


def network(name: str, batch: int) -> tuple[Any, dict[str, tuple[int, ...]], Callable[[Any], np.ndarray]]:
    """A symbol, the shapes of its inputs, and how its data are drawn."""
    if name == "transformer":
        shape: tuple[int, ...] = (batch, 128, 512)
        return transformer_encoder(), {"data": shape}, lambda rng: rng.standard_normal(shape)
    if name == "lstm":
        shapes = {"data": (STEPS, batch), "begin_h": (2, batch, 650), "begin_c": (2, batch, 650)}
        return lstm_language_model(), shapes, lambda rng: rng.integers(0, 10_000, (STEPS, batch))
    shape = (batch, 3, 224, 224)
    return IMAGE_NETWORKS[name](), {"data": shape}, lambda rng: rng.standard_normal(shape)


def measure(name: str, batch: int, mode: str, dtype: str) -> None:
    """A row of the table."""
    net, shapes, data = network(name, batch)
    training = mode == "training"
    request = {n: "write" if training and n not in shapes else "null" for n in net.list_arguments()}
    passes = PASSES[mode] if dtype == "bfloat16" else None

    def bind() -> Executor:
        return net.simple_bind(grad_req=request, passes=passes, **shapes)

    executor = bind()
    arrays = fill(executor, data)
    graph = executor._graph
    with tempfile.TemporaryDirectory() as folder:
        expected = executor.forward()[0].asnumpy()
        exact = net.simple_bind(grad_req="null", **shapes)
        write_task(Path(folder), net, exact._graph.specs, arrays, shapes, expected)
        rivals, missing = start(Task(Path(folder), training, dtype))
        head = nd.ones(executor.outputs[0].shape)

        def step() -> None:
            executor.forward(is_train=training)
            if training:
                executor.backward(head)
            nd.waitall()

        step()
        alone = Alone(executor, training)
        direct = None
        if name in IMAGE_NETWORKS and dtype == "float32":
            os.environ["MX_WINOGRAD"] = "0"
            direct = Alone(bind(), training)
            del os.environ["MX_WINOGRAD"]
        times = {"mx": float("inf")} | {rival.name: float("inf") for rival in rivals}
        for _ in range(TURNS):
            times["mx"] = min(times["mx"], turn(step))
            alone.measure()
            if direct is not None:
                direct.measure()
            for rival in rivals:
                time.sleep(PAUSE)
                times[rival.name] = min(times[rival.name], rival.measure())
            time.sleep(PAUSE)
        for rival in rivals:
            rival.stop()
    nodes = graph.schedule[: None if training else graph.n_forward]
    work = sum(flops(node, graph.specs) for node in nodes)
    items = batch * (STEPS if name == "lstm" else 1)
    best = min((t for n, t in times.items() if n != "mx"), default=float("nan"))
    columns = "  ".join(f"{n} {items / t:8.1f}" for n, t in times.items())
    speed = f"{work / times['mx'] / 1e9:.0f} GFLOP/s  {alone.limit() / times['mx']:.0%} of the limit"
    if direct is not None:
        speed += f", {direct.limit() / times['mx']:.0%} of that of direct convolutions"
    print(f"{name}/{batch}/{mode}/{dtype}: {columns}  | {speed}  ratio {best / times['mx']:.2f}")
    print(f"    {alone.profile(times['mx'])}", flush=True)
    for line in missing:
        print(f"    missing: {line}", flush=True)


def main() -> None:
    """All rows, or those named."""
    wanted = set(sys.argv[1:])
    print("per second (images, sequences, words), best of turns; ratio to the best rival")
    for row in ROWS:
        name = "/".join(map(str, row))
        if not wanted or wanted & {name, name.removesuffix("/float32")}:
            measure(*row)


if __name__ == "__main__":
    main()
