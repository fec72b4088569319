# SPDX-License-Identifier: Apache-2.0
"""Nodes that change nothing, and what only they needed, are left out."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph

_SAME_ELEMENTS = frozenset({"Reshape", "Flatten", "expand_dims", "squeeze", "reshape_like"})
_CASTS = frozenset({"Cast", "amp_cast"})
#: reductions that give a single element as it is
_OF_ONE = frozenset({"mean", "sum"})


def simplify(graph: Graph) -> Graph:
    """Drops what changes no element: copies, casts to the same type, reshapes, transpositions that cancel out.

    A mean or sum over axes that have one element is a reshape.
    """
    same: dict[Entry, Entry] = {}
    for node in graph.find("_copy", "transpose", *_CASTS, *_SAME_ELEMENTS, *_OF_ONE):
        found = _simpler(graph, node, same)
        if found is not None:
            same[Entry(node)] = found
    return graph.replace(same)


def without_gradients(graph: Graph) -> Graph:
    """Drops what only matters to gradients or training: BlockGrad, dropout."""
    same: dict[Entry, Entry] = {}
    for node in graph.find("BlockGrad", "Dropout"):
        params: Any = node.params
        unread = all(Entry(node, i) not in graph.readers for i in range(1, node.num_outputs))
        if node.op is not None and node.op.name == "Dropout" and (params.mode == "always" or not unread):
            continue
        same[Entry(node)] = node.inputs[0]
    return graph.replace(same)


def _simpler(graph: Graph, node: Node, same: dict[Entry, Entry]) -> Entry | None:
    assert node.op is not None
    name = node.op.name
    if not node.inputs:
        return None
    source = node.inputs[0]
    unchanged = graph.specs[source] == graph.specs[Entry(node)]
    if name == "_copy" or (unchanged and (name in _CASTS or name in _SAME_ELEMENTS)):
        return source
    if name in _OF_ONE:
        return _of_one(graph, node)
    if name in _SAME_ELEMENTS:  # two in a row
        below = same.get(source, source).node
        if below.op is not None and below.op.name in _SAME_ELEMENTS:
            origin = below.inputs[0]
            if graph.specs[origin] == graph.specs[Entry(node)]:
                return origin
    if name == "transpose":
        return _transposed(graph, node, same.get(source, source))
    return None


def _of_one(graph: Graph, node: Node) -> Entry | None:
    """What a reduction gives that puts nothing together."""
    given, made = graph.specs[node.inputs[0]], graph.specs[Entry(node)]
    size = prod(given.shape)
    if size == 0 or size != prod(made.shape) or given.dtype != made.dtype:
        return None
    if given.shape == made.shape:
        return node.inputs[0]
    if not made.shape:
        return None
    return graph.apply("Reshape", node.inputs[:1], node.name, attrs=node.attrs, shape=made.shape)[0]


def axes_of(graph: Graph, node: Node) -> tuple[int, ...]:
    """The axes of a transpose in full."""
    params: Any = node.params
    rank = len(graph.specs[Entry(node)].shape)
    return tuple(a % rank for a in params.axes) if params.axes else tuple(reversed(range(rank)))


def _transposed(graph: Graph, node: Node, source: Entry) -> Entry | None:
    axes = axes_of(graph, node)
    if axes == tuple(range(len(axes))):
        return source
    if source.node.op is None or source.node.op.name != "transpose":
        return None
    before = axes_of(graph, source.node)
    whole = tuple(before[a] for a in axes)
    if whole == tuple(range(len(axes))):
        return source.node.inputs[0]
    return graph.apply("transpose", source.node.inputs[:1], node.name, attrs=node.attrs, axes=whole)[0]
