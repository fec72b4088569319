# SPDX-License-Identifier: Apache-2.0
"""A task as files that any framework's process can read: the graph with every shape, and arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mx_symbol import sym
from mx_symbol.graph import Entry, topological_order
from mx_symbol.infer import shape_inference

#: inputs that are data; all other arguments are parameters
DATA = ("data",)


@dataclass(frozen=True)
class Task:
    """What every framework runs.

    Attributes
    ----------
    folder : holds `symbol.json` (MXNet's format), `graph.json` (nodes with shapes), `arrays.npz`
    training : a forward and backward pass for all parameters, or inference
    dtype : "float32" or "bfloat16"
    """

    folder: Path
    training: bool
    dtype: str = "float32"


def write_task(
    folder: Path, net: sym.Symbol, shapes: dict[str, tuple[int, ...]], training: bool, dtype: str = "float32",
    integers: int = 0,
) -> Task:  # fmt: skip
    """Writes a network with random weights; `data` are integers below `integers` where that is given."""
    folder.mkdir(parents=True, exist_ok=True)
    net.save(str(folder / "symbol.json"))
    arg_shapes, _, aux_shapes = net.infer_shape(**shapes)
    known = dict(zip(net.list_arguments(), arg_shapes, strict=True))
    states = dict(zip(net.list_auxiliary_states(), aux_shapes, strict=True))
    rng = np.random.default_rng(7)
    arrays = {name: _random(rng, name, shape, integers) for name, shape in {**known, **states}.items()}
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "graph.json").write_text(json.dumps(_graph(net, {**known, **states}, list(states))))
    return Task(folder, training, dtype)


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...], integers: int) -> np.ndarray:
    """Values at which activations keep their scale through a deep network."""
    if name in DATA and integers:
        return rng.integers(0, integers, shape).astype(np.float32)
    if name.endswith(("gamma", "var")):
        return np.ones(shape, np.float32)
    fan = max(int(np.prod(shape[1:])), 1) if len(shape) > 1 and name not in DATA else 1
    if name.endswith("parameters"):
        fan = 650
    return (rng.standard_normal(shape) * (2.0 / fan) ** 0.5).astype(np.float32)


def _graph(net: sym.Symbol, shapes: dict[str, tuple[int, ...]], states: list[str]) -> dict[str, object]:
    order = topological_order(entry.node for entry in net.entries)
    found = shape_inference(order, shapes)
    number = {node: i for i, node in enumerate(order)}
    nodes = [
        {
            "op": None if node.op is None else node.op.name,
            "name": node.name,
            "attrs": {f.name: getattr(node.params, f.name) for f in node.params.fields()}
            if node.params
            else {},
            "inputs": [[number[entry.node], entry.index] for entry in node.inputs],
            "shapes": [found.get(Entry(node, i)) for i in range(node.num_outputs)],
        }
        for node in order
    ]
    return {"nodes": nodes, "heads": [[number[e.node], e.index] for e in net.entries], "states": states}
