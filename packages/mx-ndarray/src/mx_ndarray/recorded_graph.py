# SPDX-License-Identifier: Apache-2.0
"""The record of autograd as the JSON text of a symbol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mx_core.errors import MXNetError
from mx_ndarray import _core
from mx_ndarray.ndarray import NDArray

#: node, output, version
Edge = list[int]


def to_json(head: NDArray) -> str:
    """The graph below a recorded array.

    Leaves are named `var0`, …, arrays outside the graph `null1`, … with one count for both, and
    operators `node_0`, …. In the place of a recorded call of a graph its operators stand.

    Raises
    ------
    MXNetError  the array is in no graph, its graph was freed, or holds an `autograd.Function`
    """
    graph = _Nodes()
    places: list[list[Edge]] = []  # of the outputs of each recorded node
    for op, params, inputs in _core.graph_of(head):
        if op is None:
            places.append([graph.variable("var")])
            continue
        edges = [graph.variable("null") if edge is None else places[edge[0]][edge[1]] for edge in inputs]
        if params is None:
            places.append(graph.call(op, edges))
        else:
            node = graph.operator(op.name, params.attrs(), edges)
            places.append([[node, index, 0] for index in range(len(op.outputs(params)))])
    return graph.text(places[-1][_core.output_index(head)])


class _Nodes:
    """Nodes of a graph, as its text has them."""

    def __init__(self) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._arguments: list[int] = []

    def variable(self, prefix: str) -> Edge:
        self._arguments.append(len(self._nodes))
        self._nodes.append({"op": "null", "name": f"{prefix}{len(self._arguments) - 1}", "inputs": []})
        return [len(self._nodes) - 1, 0, 0]

    def operator(self, name: str, attrs: Mapping[str, Any], inputs: list[Edge]) -> int:
        count = len(self._nodes) - len(self._arguments)
        node: dict[str, Any] = {"op": name, "name": f"node_{count}", "inputs": inputs}
        if attrs:
            node["attrs"] = attrs
        self._nodes.append(node)
        return len(self._nodes) - 1

    def call(self, backward: Any, inputs: list[Edge]) -> list[Edge]:
        """The operators of a graph that was called as a whole; returns its outputs."""
        recorded = getattr(getattr(backward, "__self__", None), "recorded_graph", None)
        if recorded is None:
            raise MXNetError(
                "[autograd.get_symbol] the graph holds an autograd.Function, which is no operator"
            )
        text, names = recorded()
        called, given = json.loads(text), dict(zip(names, inputs, strict=True))
        found: list[int | Edge] = []

        def edge(node: int, index: int) -> Edge:
            place = found[node]
            return [place, index, 0] if isinstance(place, int) else place

        for node in called["nodes"]:
            if node["op"] == "null":
                found.append(given[node["name"]])
            else:
                edges = [edge(*each[:2]) for each in node["inputs"]]
                found.append(self.operator(node["op"], node.get("attrs", {}), edges))
        return [edge(*head[:2]) for head in called["heads"]]

    def text(self, head: Edge) -> str:
        return json.dumps(
            {
                "nodes": self._nodes,
                "arg_nodes": self._arguments,
                "node_row_ptr": list(range(len(self._nodes) + 1)),
                "heads": [head],
                "attrs": {"mxnet_version": ["int", 10901]},
            },
            indent=2,
        )
