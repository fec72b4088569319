# SPDX-License-Identifier: Apache-2.0
"""Networks beside other frameworks, float32, in one run and in turns.

`python bench_networks.py [network/batch/mode ...]`, for example `resnet50_v1/1/inference`. Each row has images
(sequences, steps) per second, GFLOP/s, and how near we come to the limit: the sum of what each layer's oneDNN
primitive takes alone in the same run, and for training the bytes of everything else over the bandwidth of a
copy. A training step is forward and backward; all parameters get gradients. Ratio: ours to the best rival.
All rows take about ten minutes on two cores: `nox -s bench -- networks --limit 900`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rivals
from networks import IMAGE_NETWORKS, lstm_language_model, transformer_encoder
from rivals.loop import turn

from mx_ndarray import nd
from mx_symbol.cost import cost, flops
from mx_symbol.executor import Executor

#: network, batch, mode
ROWS = (
    ("resnet50_v1", 1, "inference"), ("resnet18_v1", 16, "training"), ("transformer", 8, "training"),
    ("lstm", 20, "training"), ("mobilenet1.0", 1, "inference"), ("resnet50_v1", 32, "inference"),
    ("transformer", 8, "inference"), ("vgg16", 1, "inference"), ("lstm", 20, "inference"),
)  # fmt: skip
TURNS = 5
#: runs of one node between two waits, so that waiting does not count
REPEATS = 8
#: between turns, seconds: until idle threads of the last one have stopped spinning
PAUSE = 0.25
STEPS = 35
INFERENCE = ("torch.compile", "ONNX Runtime", "OpenVINO", "MXNet 1.9.1")
TRAINING = ("PyTorch eager", "torch.compile", "MXNet 1.9.1")
_LAYERS = ("Convolution", "_fused_Convolution", "FullyConnected", "_fused_FullyConnected", "batch_dot", "RNN")
_TRAINED = (*_LAYERS, "_backward_Convolution", "_backward_FullyConnected", "_backward_RNN")


def network(name: str, batch: int) -> tuple[Any, dict[str, tuple[int, ...]], Callable[[Any], np.ndarray]]:
    """A symbol, the shapes of its inputs, and how its data are drawn."""
    if name == "transformer":
        return (
            transformer_encoder(),
            {"data": (batch, 128, 512)},
            lambda rng: rng.standard_normal((batch, 128, 512)),
        )
    if name == "lstm":
        shapes = {"data": (STEPS, batch), "begin_h": (2, batch, 650), "begin_c": (2, batch, 650)}
        return lstm_language_model(), shapes, lambda rng: rng.integers(0, 10_000, (STEPS, batch))
    shape = (batch, 3, 224, 224)
    return IMAGE_NETWORKS[name](), {"data": shape}, lambda rng: rng.standard_normal(shape)


def values_of(executor: Executor, data: Callable[[Any], np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of the usual sizes by name."""
    rng = np.random.default_rng(0)
    result = {}
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        fan = max(int(np.prod(array.shape[1:])), 1)
        drawn = rng.standard_normal(array.shape) * (2 / fan) ** 0.5
        if name.endswith(("gamma", "var")):
            drawn = 1 + 0.1 * np.abs(rng.standard_normal(array.shape))
        elif len(array.shape) == 1:
            drawn = rng.uniform(-0.04, 0.04, array.shape)
        result[name] = np.asarray(data(rng) if name == "data" else drawn, np.float32)
        array[:] = result[name]
    return result


def limit(executor: Executor, training: bool) -> float:
    """Seconds that nothing could be faster than: layers each run by itself again and again, and bytes moved.

    What inference does beside its layers counts as nothing, because it can be part of them.
    """
    program, nodes = executor.separate_program(training)
    specs = executor._optimized(executor._mode(training)).specs
    total = moved = 0.0
    for part, node in enumerate(nodes):
        program.push(part)
        if node.op is None:
            continue
        if node.op.name in (_TRAINED if training else _LAYERS):
            total += min(turn_of(program, part) for _ in range(5))
        elif training:
            moved += cost(node, specs)
    return total + moved / bandwidth()


def bandwidth() -> float:
    """Bytes per second, read and written, of copying a large array."""
    source = nd.ones((1 << 26,))
    target = nd.zeros((1 << 26,))
    times = []
    for _ in range(5):
        nd.waitall()
        began = time.perf_counter()
        source.copyto(target)
        nd.waitall()
        times.append(time.perf_counter() - began)
    return 8.0 * source.size / min(times)


def turn_of(program: Any, part: int) -> float:
    """Seconds of one run of a node."""
    nd.waitall()
    began = time.perf_counter()
    for _ in range(REPEATS):
        program.push(part)
    nd.waitall()
    return (time.perf_counter() - began) / REPEATS


def measure(name: str, batch: int, mode: str) -> None:
    """A row of the table."""
    net, shapes, data = network(name, batch)
    training = mode == "training"
    request = {n: "write" if training and n not in shapes else "null" for n in net.list_arguments()}
    executor = net.simple_bind(grad_req=request, **shapes)
    values = values_of(executor, data)
    with tempfile.TemporaryDirectory() as folder:
        rivals.export(Path(folder), net, executor._graph.specs, values)
        np.save(Path(folder) / "expected.npy", executor.forward()[0].asnumpy())
        running, missing = rivals.start(Path(folder), mode, TRAINING if training else INFERENCE)
        head = nd.ones(executor.outputs[0].shape)

        def run() -> None:
            executor.forward(is_train=training)
            if training:
                executor.backward(head)
            nd.waitall()

        run()
        times = {"mx": float("inf")} | {rival.name: float("inf") for rival in running}
        for _ in range(TURNS):
            times["mx"] = min(times["mx"], turn(run))
            for rival in running:
                time.sleep(PAUSE)
                times[rival.name] = min(times[rival.name], rival.measure())
            time.sleep(PAUSE)
        for rival in running:
            rival.stop()
    graph = executor._graph
    nodes = graph.schedule[: None if training else graph.n_forward]
    work = sum(flops(node, graph.specs) for node in nodes)
    items = batch * (STEPS if name == "lstm" else 1)
    best = min((t for n, t in times.items() if n != "mx"), default=float("nan"))
    columns = "  ".join(f"{n} {items / t:8.1f}" for n, t in times.items())
    speed = (
        f"{work / times['mx'] / 1e9:.0f} GFLOP/s  {limit(executor, training) / times['mx']:.0%} of the limit"
    )
    print(f"{name}/{batch}/{mode}: {columns}  | {speed}  ratio {best / times['mx']:.2f}", flush=True)
    for line in missing:
        print(f"    missing: {line}", flush=True)


def main() -> None:
    """All rows, or those named."""
    wanted = [tuple(word.split("/")) for word in sys.argv[1:]]
    print("per second (images, sequences, words), best of turns; ratio to the best rival")
    for name, batch, mode in ROWS:
        if not wanted or (name, str(batch), mode) in wanted:
            measure(name, batch, mode)


if __name__ == "__main__":
    main()
