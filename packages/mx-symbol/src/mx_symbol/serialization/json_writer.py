# SPDX-License-Identifier: Apache-2.0
"""Writing symbol JSON, byte for byte in MXNet's layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mx_symbol.graph import Entry, Node, rewrite, topological_order

#: the MXNet version whose format is written
FORMAT_VERSION = 10901
_CASTS = ("amp_cast", "amp_multicast")


def to_json(heads: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """The graph as symbol JSON."""
    if remove_amp_cast:
        heads = rewrite(heads, _without_cast)
    return _text(_graph(heads) | {"attrs": {"mxnet_version": ["int", FORMAT_VERSION]}}, 0)


def _without_cast(node: Node, inputs: list[Entry]) -> list[Entry] | None:
    return inputs if node.op is not None and node.op.name in _CASTS else None


def _graph(heads: Sequence[Entry]) -> dict[str, Any]:
    order = topological_order(entry.node for entry in heads)
    ids = {node: i for i, node in enumerate(order)}
    rows = [0]
    for node in order:
        rows.append(rows[-1] + node.num_outputs)
    return {
        "nodes": [_node(node, ids) for node in order],
        "arg_nodes": [i for i, node in enumerate(order) if node.is_variable],
        "node_row_ptr": rows,
        "heads": [[ids[entry.node], entry.index, 0] for entry in heads],
    }


def _node(node: Node, ids: dict[Node, int]) -> dict[str, Any]:
    mutated = node.mutated
    result: dict[str, Any] = {"op": "null" if node.op is None else node.op.name, "name": node.name}
    attrs = node.attributes()
    if attrs:
        result["attrs"] = dict(sorted(attrs.items()))
    result["inputs"] = [
        [ids[entry.node], entry.index, int(i in mutated)] for i, entry in enumerate(node.inputs)
    ]
    if node.subgraphs:
        result["subgraphs"] = [_graph(subgraph.entries) for subgraph in node.subgraphs]
    return result


def _text(value: Any, depth: int) -> str:
    """A dictionary of one entry, a short list and a list of lists stay on one line."""
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in value.items()]
        return _lines("{", items, "}", depth, len(items) > 1)
    if isinstance(value, list):
        items = [_text(item, depth + 1) for item in value]
        several = any(isinstance(item, dict) for item in value)
        return _lines("[", items, "]", depth, several or len(items) > 10)
    return json.dumps(value, ensure_ascii=False)


def _lines(opening: str, items: list[str], closing: str, depth: int, several: bool) -> str:
    if not several:
        return opening + ", ".join(items) + closing
    indent = "\n" + "  " * (depth + 1)
    return opening + indent + f", {indent}".join(items) + "\n" + "  " * depth + closing
