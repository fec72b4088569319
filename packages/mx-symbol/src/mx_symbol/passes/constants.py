# SPDX-License-Identifier: Apache-2.0
"""Constant folding: what depends on no variable is computed once."""

from __future__ import annotations

from math import prod

from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.subexpressions import is_pure

#: elements of a constant that is kept; a larger one costs more memory than time
LARGEST = 2**20


def fold_constants(graph: Graph) -> Graph:
    """Marks nodes that only read constants as prepared: their values are kept from run to run."""
    folded: dict[Node, Node] = {}
    mapping: dict[Entry, Entry] = {}
    if all(node.inputs for node in graph.nodes):
        return graph
    for node in graph.nodes:
        if PREPARED in node.attrs or not _is_constant(graph, node, folded):
            continue
        made = Node(
            node.op, node.params, node.name, {**node.attrs, PREPARED: "1"},
            [Entry(folded[e.node], e.index) for e in node.inputs],
        )  # fmt: skip
        folded[node] = made
        for i in range(node.num_outputs):
            graph.specs[Entry(made, i)] = graph.specs[Entry(node, i)]
            mapping[Entry(node, i)] = Entry(made, i)
    return graph.replace(mapping)


def _is_constant(graph: Graph, node: Node, folded: dict[Node, Node]) -> bool:
    if not all(entry.node in folded for entry in node.inputs):
        return False
    sizes = [prod(graph.specs[entry].shape) for entry in graph.outputs_of(node)]
    return max(sizes) <= LARGEST and is_pure(graph, node)
