# SPDX-License-Identifier: Apache-2.0
"""Compiles a graph with `torch.compile` and runs it some times.

    python compile_torch.py FOLDER

Prints one line of JSON as `run_mxnet.py` does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from contest.run_torch import Network

from compiling.run_mxnet import LATER  # bench_compile.py names the folder in PYTHONPATH


def main() -> None:
    """Measures and prints."""
    folder = Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    graph = json.loads((folder / "graph.json").read_text())
    arrays = np.load(folder / "arrays.npz")
    torch.compile(lambda x: torch.tanh(x + 1))(torch.zeros(4, 4))  # what a process does once
    run = Network(graph, arrays, torch.float32).train(case["training"])
    sys.setrecursionlimit(100_000)
    compiled = torch.compile(run)
    data = torch.from_numpy(arrays["data"])
    measured = []
    for _ in range(1 + LATER):
        began, spent = time.perf_counter(), time.process_time()
        with torch.set_grad_enabled(case["training"]):
            made = compiled(data)
        if case["training"]:
            made.backward(torch.ones_like(made))
        measured.append((time.perf_counter() - began, time.process_time() - spent))
    (wall, processor), *later = measured
    walls, processors = zip(*later, strict=True)
    print(json.dumps({"wall": wall - min(walls), "processor": processor - min(processors)}))


if __name__ == "__main__":
    main()
