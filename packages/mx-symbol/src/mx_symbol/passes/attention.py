# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · Q Kᵀ) V as one operator: the scores never leave the cache (Dao et al., FlashAttention, 2022).

Heads that were cut out of the last axis before, and joined there after, stay where they are. It is done where a
kernel for `_fused_attention` takes the result; elsewhere the graph stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core.operator import Operator, Params, opt
from mx_core.operator.declaration import ReferenceContext
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph


class FusedAttentionParam(Params):
    """Heads and scale."""

    heads: int = opt(1, "side by side in the last axis", lower=1)
    scale: float = opt(1.0, "of the scores")


class FusedAttention(Operator[FusedAttentionParam]):
    """softmax(scale · query keyᵀ) value, for each head, over (N, T, heads · depth)."""

    name = "_fused_attention"
    arguments = ("query", "key", "value")
    differentiable = False  # of inference alone
    custom_gradient = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Rows of the query, columns of the value."""
        query, value = s.known("query"), s.known("value")
        if query is not None and value is not None:
            s.assign("output", (*query[:2], value[2]))

    def infer_type(self, p: Any, t: Any) -> None:
        """One type."""
        t.unify(["query", "key", "value", "output"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Head by head, in double."""
        q, k, v = (
            np.asarray(x, np.float64).reshape(*x.shape[:2], p.heads, -1).swapaxes(1, 2) for x in inputs
        )
        scores = p.scale * (q @ k.swapaxes(2, 3))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        y = (powers / powers.sum(-1, keepdims=True)) @ v
        joined = y.swapaxes(1, 2).reshape(*inputs[0].shape[:2], -1)
        return (joined.astype(inputs[0].dtype),)


FUSED_ATTENTION = FusedAttention()


def fuse_attention(graph: Graph) -> Graph:
    """Makes one operator of each attention."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("batch_dot"):
        found = _matched(graph, node)
        if found is None:
            continue
        params: Any = FusedAttentionParam(heads=found.heads, scale=found.scale)
        (made,) = graph.apply(FUSED_ATTENTION, found.inputs, node.name, params, node.attrs)
        specs = [graph.specs[e] for e in found.inputs], [graph.specs[made]]
        if graph.specs[made] == graph.specs[found.end] and graph.has_kernel(FUSED_ATTENTION, params, *specs):
            mapping[found.end] = made
    return graph.replace(mapping)


class _Attention(NamedTuple):
    """What one operator computes."""

    inputs: tuple[Entry, Entry, Entry]
    end: Entry
    heads: int
    scale: float


def _matched(graph: Graph, node: Node) -> _Attention | None:
    """The attention whose last product is a node."""
    softmax = _made_by(graph, node.inputs[0], "softmax")
    if softmax is None or _transposed_inputs(node) != (False, False):
        return None
    p: Any = softmax.params
    entry = softmax.inputs[0]
    if p.axis not in (-1, len(graph.specs[entry].shape) - 1) or p.use_length or p.dtype is not None:
        return None
    scale = 1 / (p.temperature or 1.0)
    scaled = _made_by(graph, entry, "_mul_scalar", "_div_scalar")
    if scaled is not None:
        given: Any = scaled.params
        factor = float(given.scalar)
        if factor == 0:
            return None
        scale *= factor if scaled.op is not None and scaled.op.name == "_mul_scalar" else 1 / factor
        entry = scaled.inputs[0]
    scores = _made_by(graph, entry, "batch_dot")
    if scores is None or _transposed_inputs(scores) != (False, True):
        return None
    inputs = (scores.inputs[0], scores.inputs[1], node.inputs[1])
    if any(len(graph.specs[e].shape) != 3 for e in inputs):
        return None
    return _with_heads(graph, inputs, Entry(node), scale) or _Attention(inputs, Entry(node), 1, scale)


def _made_by(graph: Graph, entry: Entry, *ops: str) -> Node | None:
    """The node of one of these operators that makes an entry for one reader alone."""
    node = entry.node
    return node if node.op is not None and node.op.name in ops and graph.only_reader(entry) else None


def _transposed_inputs(node: Node) -> tuple[bool, bool]:
    p: Any = node.params
    return p.transpose_a, p.transpose_b


def _with_heads(
    graph: Graph, inputs: tuple[Entry, Entry, Entry], end: Entry, scale: float
) -> _Attention | None:
    """The same on what heads are cut out of, if all inputs are such and the heads are joined after."""
    cut = [_cut(graph, entry) for entry in inputs]
    if None in cut or len({graph.specs[e].shape[0] for e in cut if e is not None}) != 1:
        return None
    query, key, value = (e for e in cut if e is not None)
    rows, heads = graph.specs[query].shape[0], graph.specs[inputs[0]].shape[0] // graph.specs[query].shape[0]
    joined = end
    for name in ("Reshape", "transpose", "Reshape"):
        reader = graph.only_reader(joined)
        if reader is None or reader[0].op is None or reader[0].op.name != name:
            return None
        joined = Entry(reader[0])
        if name == "transpose" and not _swaps_heads(graph, reader[0], rows, heads):
            return None
    expected = (*graph.specs[query].shape[:2], graph.specs[value].shape[2])
    return (
        _Attention((query, key, value), joined, heads, scale)
        if graph.specs[joined].shape == expected
        else None
    )


def _cut(graph: Graph, entry: Entry) -> Entry | None:
    """x (N, T, heads · depth), where an entry is x's heads as (N · heads, T, depth)."""
    nodes = []
    for name in ("Reshape", "transpose", "Reshape"):
        node = entry.node
        if node.op is None or node.op.name != name:
            return None
        nodes.append(node)
        entry = node.inputs[0]
    (n, t, width), (product, length, depth) = _three(graph, entry), _three(graph, Entry(nodes[0]))
    heads = product // n if n else 0
    right = n * heads == product and length == t and heads * depth == width
    return entry if right and _swaps_heads(graph, nodes[1], n, heads, before=True) else None


def _three(graph: Graph, entry: Entry) -> tuple[int, ...]:
    shape = graph.specs[entry].shape
    return shape if len(shape) == 3 else (0, 0, 0)


def _swaps_heads(graph: Graph, node: Node, rows: int, heads: int, before: bool = False) -> bool:
    """(N, heads, T, depth) to (N, T, heads, depth), or back if `before`."""
    p: Any = node.params
    shape = graph.specs[node.inputs[0]].shape
    return (
        len(shape) == 4
        and tuple(p.axes) == (0, 2, 1, 3)
        and shape[0] == rows
        and shape[2 if before else 1] == heads
    )
