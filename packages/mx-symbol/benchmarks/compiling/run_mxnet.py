# SPDX-License-Identifier: Apache-2.0
"""Binds a symbol file and runs it some times; `mx` or MXNet 1.9.1. Runs on Python 3.8 too.

    python run_mxnet.py mx|mxnet FOLDER

Prints one line of JSON: seconds of wall clock and of processor time from the loaded symbol to the first result, those
of a later step taken off.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Collection
from types import ModuleType
from typing import Any

#: steps after the first, of which the least counts
LATER = 4


def steps(
    mx: ModuleType, net: Any, shapes: dict[str, tuple[int, ...]], training: bool, fixed: Collection[str] = ()
) -> list[tuple[float, float]]:
    """Seconds (wall, processor) to the first result, and of later steps."""
    began, spent = time.perf_counter(), time.process_time()
    requests = {n: "write" if training and n not in fixed else "null" for n in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    head = mx.nd.ones(executor.outputs[0].shape)
    measured = []
    for _ in range(1 + LATER):
        executor.forward(is_train=training)
        if training:
            executor.backward(head)
        mx.nd.waitall()
        measured.append((time.perf_counter() - began, time.process_time() - spent))
        began, spent = time.perf_counter(), time.process_time()
    return measured


def main() -> None:
    """Measures and prints."""
    mx = importlib.import_module(sys.argv[1])
    folder = sys.argv[2]
    with open(os.path.join(folder, "case.json")) as file:
        case = json.load(file)
    shapes = {name: tuple(shape) for name, shape in case["shapes"].items()}
    small = mx.sym.tanh(mx.sym.Variable("data") + 1)
    steps(mx, small, {"data": (4, 4)}, True)  # what a process does once
    net = mx.sym.load(os.path.join(folder, "symbol.json"))
    (wall, processor), *later = steps(mx, net, shapes, case["training"], case["fixed"])
    walls, processors = zip(*later)
    print(json.dumps({"wall": wall - min(walls), "processor": processor - min(processors)}))


if __name__ == "__main__":
    main()
