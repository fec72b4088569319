# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from mx_symbol._core import duplicates
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph


def common_subexpressions(graph: Graph) -> Graph:
    """Equal operators with equal parameters on equal inputs become one node.

    Random operators, operators that write states, and operators with subgraphs are left alone.
    """
    same: dict[Entry, Entry] = {}

    def ask(node: Node) -> tuple[bool, bool]:
        return is_pure(graph, node), not node.facts.draws

    for node, known in duplicates(graph.flat, graph.forward, ask, "__ctx_group__"):
        same.update(zip(graph.outputs_of(node), graph.outputs_of(known), strict=True))
    return graph.replace(same)


def is_pure(graph: Graph, node: Node) -> bool:
    """True when a node gives the same values whenever it has the same inputs, and does nothing else."""
    op, params = node.op, node.params
    if op is None or params is None or op.keeps_state or node.subgraphs or node.facts.mutated:
        return False
    if not node.facts.draws:
        return True
    shapes = [graph.specs[Entry(node, i)].shape for i in range(node.num_outputs)]
    return not node.facts.draws_for(shapes)
