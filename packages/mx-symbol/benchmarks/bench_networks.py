# SPDX-License-Identifier: Apache-2.0
"""Whole networks beside PyTorch, torch.compile, ONNX Runtime, OpenVINO and MXNet 1.9.1, in turns.

    bench_networks.py [NAME ...] [--turns N] [--seconds S]

Prints samples a second, GFLOP/s of products and convolutions, and the ratio of ours to each.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from contest import Result, compete, write_task
from networks import IMAGE_NETWORKS, lstm_language_model, transformer_encoder

from mx_symbol import sym
from mx_symbol.bound_graph import build
from mx_symbol.cost import flops

Shapes = dict[str, tuple[int, ...]]


def image(name: str, batch: int) -> tuple[sym.Symbol, Shapes, int]:
    """An image network, its input, and no words."""
    return IMAGE_NETWORKS[name](), {"data": (batch, 3, 224, 224)}, 0


def rows() -> dict[str, tuple[sym.Symbol, Shapes, int, bool, int]]:
    """By name: network, shapes, number of words, training, samples a step."""
    lstm = (lstm_language_model(), {"data": (35, 20)}, 10_000)
    encoder = (transformer_encoder(), {"data": (8, 128, 512)}, 0)
    return {
        "resnet50_v1-1": (*image("resnet50_v1", 1), False, 1),
        "resnet50_v1-32": (*image("resnet50_v1", 32), False, 32),
        "mobilenet1.0-1": (*image("mobilenet1.0", 1), False, 1),
        "mobilenet1.0-32": (*image("mobilenet1.0", 32), False, 32),
        "vgg16-1": (*image("vgg16", 1), False, 1),
        "lstm": (*lstm, False, 20),
        "encoder": (*encoder, False, 8),
        "resnet18_v1-16-training": (*image("resnet18_v1", 16), True, 16),
        "lstm-training": (*lstm, True, 20),
        "encoder-training": (*encoder, True, 8),
    }


def work(net: sym.Symbol, shapes: Shapes, training: bool) -> float:
    """Floating-point operations of a step."""
    requests = {n: "write" for n in net.list_arguments() if n not in shapes} if training else {}
    graph = build(net.entries, shapes, {}, requests)
    return sum(flops(node, graph.specs) for node in graph.schedule)


def report(name: str, results: list[Result], samples: int, operations: float) -> None:
    """A line per framework."""
    ours = next((r.seconds for r in results if r.framework == "mx"), None)
    for r in results:
        if r.seconds is None:
            print(f"{name:24} {r.framework:14} does not run: {r.problem[:90]}")
            continue
        ratio = f"ratio {r.seconds / ours:5.2f}" if ours and r.framework != "mx" else ""
        speed = operations / r.seconds / 1e9
        print(f"{name:24} {r.framework:14} {samples / r.seconds:9.1f} /s {speed:8.1f} GFLOP/s "
              f"mean |out| {r.checksum:.5g}  {ratio}")  # fmt: skip


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="rows to measure; all by default")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--dtype", default="float32")
    given = parser.parse_args()
    for name, (net, shapes, words, training, samples) in rows().items():
        if given.names and name not in given.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            task = write_task(Path(folder), net, shapes, training, given.dtype, words)
            results = compete(task, seconds=given.seconds, turns=given.turns)
        report(name, results, samples, work(net, shapes, training))


if __name__ == "__main__":
    main()
