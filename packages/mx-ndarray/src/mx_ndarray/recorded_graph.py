# SPDX-License-Identifier: Apache-2.0
"""The record of autograd as the JSON text of a symbol."""

from __future__ import annotations

import json
from typing import Any

from mx_ndarray import _core
from mx_ndarray.ndarray import NDArray


def to_json(head: NDArray) -> str:
    """The graph below a recorded array.

    Leaves are named `var0`, …, arrays outside the graph `null1`, … with one count for both, and
    operators `node_0`, ….

    Raises
    ------
    MXNetError  the array is in no graph, its graph was freed, or holds an `autograd.Function`
    """
    nodes: list[dict[str, Any]] = []
    places: list[int] = []  # of each recorded node among `nodes`
    arguments: list[int] = []
    operators = 0

    def variable(prefix: str) -> int:
        arguments.append(len(nodes))
        nodes.append({"op": "null", "name": f"{prefix}{len(arguments) - 1}", "inputs": []})
        return len(nodes) - 1

    for op, params, inputs in _core.graph_of(head):
        if op is None or params is None:
            places.append(variable("var"))
            continue
        edges = [
            [variable("null"), 0, 0] if edge is None else [places[edge[0]], edge[1], 0] for edge in inputs
        ]
        node: dict[str, Any] = {"op": op.name, "name": f"node_{operators}", "inputs": edges}
        if attrs := params.attrs():
            node["attrs"] = attrs
        operators += 1
        places.append(len(nodes))
        nodes.append(node)
    graph = {
        "nodes": nodes,
        "arg_nodes": arguments,
        "node_row_ptr": list(range(len(nodes) + 1)),
        "heads": [[places[-1], _core.output_index(head), 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    return json.dumps(graph, indent=2)
