# SPDX-License-Identifier: Apache-2.0
"""Other frameworks on our networks: each in a process of its own, measured in turns.

A network crosses as a folder: `network.json` lists the nodes with their shapes, `values.npz` has the arrays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
#: name, script, its mode, environment variable with the Python that has the framework
RIVALS = (
    ("PyTorch eager", "torch_worker.py", "eager", "MX_BENCH_TORCH_PYTHON"),
    ("torch.compile", "torch_worker.py", "compile", "MX_BENCH_TORCH_PYTHON"),
    ("ONNX Runtime", "onnx_worker.py", "onnxruntime", "MX_BENCH_ONNX_PYTHON"),
    ("OpenVINO", "onnx_worker.py", "openvino", "MX_BENCH_ONNX_PYTHON"),
    ("MXNet 1.9.1", "mxnet_worker.py", "", "MX_BENCH_MXNET_PYTHON"),
)


def export(folder: Path, symbol: Any, specs: dict[Any, Any], values: dict[str, np.ndarray]) -> None:
    """Writes a network down for the workers."""
    numbers = {node: i for i, node in enumerate(symbol.nodes)}
    nodes = [
        {
            "op": None if node.op is None else node.op.name,
            "name": node.name,
            "attrs": {} if node.params is None else node.params.attrs_all(),
            "inputs": [[numbers[e.node], e.index] for e in node.inputs],
            "shape": list(specs[entry_of(node)].shape),
        }
        for node in symbol.nodes
    ]
    heads = [[numbers[e.node], e.index] for e in symbol.entries]
    (folder / "network.json").write_text(json.dumps({"nodes": nodes, "heads": heads}))
    (folder / "symbol.json").write_text(symbol.tojson())
    np.savez(folder / "values.npz", **values)


def entry_of(node: Any) -> Any:
    """The first output of a node."""
    from mx_symbol.graph import Entry

    return Entry(node)


@dataclass
class Rival:
    """A worker process."""

    name: str
    process: subprocess.Popen[str]

    def measure(self) -> float:
        """Seconds of the best run of a turn."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        """Ends the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(20)


def start(folder: Path, mode: str, wanted: tuple[str, ...]) -> tuple[list[Rival], list[str]]:
    """The rivals that are installed and can do it, and why the others cannot.

    Parameters
    ----------
    mode : "inference" or "training"
    """
    running, missing = [], []
    for name, script, kind, variable in RIVALS:
        if name not in wanted:
            continue
        python = os.environ.get(variable, "" if "MXNET" in variable else sys.executable)
        if not python:
            missing.append(f"{name}: no Python for it ({variable})")
            continue
        process = subprocess.Popen(
            [python, str(HERE / script), str(folder), mode, kind], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE,
        )  # fmt: skip
        assert process.stdout is not None
        answer = process.stdout.readline().strip()
        if answer == "ready":
            running.append(Rival(name, process))
        else:
            process.kill()
            missing.append(f"{name}: {answer or 'does not start'}")
    return running, missing
