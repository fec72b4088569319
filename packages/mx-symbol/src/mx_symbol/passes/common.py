# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from typing import Any

from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph

#: operators whose results depend on more than their declaration says
_OPAQUE = frozenset({"Custom"})


def common_subexpressions(graph: Graph) -> Graph:
    """Equal operators with equal parameters on equal inputs become one node.

    Random operators, operators that write states, and operators with subgraphs are left alone.
    """
    first: dict[Any, Node] = {}
    same: dict[Entry, Entry] = {}
    for node in graph.nodes:
        if not is_pure(graph, node):
            continue
        inputs = tuple(same.get(entry, entry) for entry in node.inputs)
        key = (node.facts, inputs, node.attrs.get("__ctx_group__"))
        known = first.setdefault(key, node)
        if known is node or (known in graph.forward) < (node in graph.forward):
            continue
        for i in range(node.num_outputs):
            same[Entry(node, i)] = Entry(known, i)
    return graph.replace(same)


def is_pure(graph: Graph, node: Node) -> bool:
    """True when a node gives the same values whenever it has the same inputs, and does nothing else."""
    op, params = node.op, node.params
    if op is None or params is None or op.name in _OPAQUE or node.subgraphs or node.facts.mutated:
        return False
    if not node.facts.draws:
        return True
    shapes = [graph.specs[Entry(node, i)].shape for i in range(node.num_outputs)]
    return not op.is_random and not op.random_blocks(params, shapes)
