# SPDX-License-Identifier: Apache-2.0
"""A task as files that any framework's process can read: the graph with every shape, and arrays."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mx_core.kernels import TensorSpec
from mx_symbol import sym
from mx_symbol.graph import Entry


@dataclass(frozen=True)
class Task:
    """What every framework runs.

    Attributes
    ----------
    folder : holds `symbol.json` (MXNet's format), `graph.json` (nodes with shapes), `arrays.npz`, and
        `expected.npy`: our first output, without training, and for training `gradients.npz`, unless the network
        draws random numbers
    training : a forward and backward pass for all parameters, or inference
    dtype : "float32" or "bfloat16"
    """

    folder: Path
    training: bool
    dtype: str = "float32"


def write_task(
    folder: Path,
    net: sym.Symbol,
    specs: Mapping[Entry, TensorSpec],
    arrays: Mapping[str, np.ndarray],
    fixed: Collection[str],
    expected: np.ndarray,
    gradients: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes a network down.

    Parameters
    ----------
    specs : shape and type of every entry
    arrays : arguments and auxiliary states by name
    fixed : arguments that are no parameters, and get no gradient
    gradients : by parameter, of the sum of the first output
    """
    net.save(str(folder / "symbol.json"))
    _save(folder / "arrays.npz", arrays)
    np.save(folder / "expected.npy", expected)
    if gradients is not None:
        _save(folder / "gradients.npz", gradients)
    number = {node: i for i, node in enumerate(net.nodes)}
    nodes = [
        {
            "op": None if node.op is None else node.op.name,
            "name": node.name,
            "attrs": {f.name: getattr(node.params, f.name) for f in node.params.fields()}
            if node.params
            else {},
            "inputs": [[number[entry.node], entry.index] for entry in node.inputs],
            "shapes": [specs[Entry(node, i)].shape for i in range(node.num_outputs)],
        }
        for node in net.nodes
    ]
    heads = [[number[e.node], e.index] for e in net.entries]
    described = {
        "nodes": nodes, "heads": heads, "states": net.list_auxiliary_states(), "fixed": sorted(fixed),
    }  # fmt: skip
    (folder / "graph.json").write_text(json.dumps(described))


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    """Arrays of any name, where NumPy's stub expects that a name may be that of an option."""
    np.savez(path, **arrays)
