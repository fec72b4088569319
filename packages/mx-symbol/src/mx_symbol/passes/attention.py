# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · Q Kᵀ) V as one operator: the scores never leave the cache (Dao et al., FlashAttention, 2022).

Heads that were cut out of the last axis before, and joined there after, stay where they are. It is done where a
kernel for `_fused_attention` takes the result; elsewhere the graph stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core import dtypes
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
#: what merges or splits axes, in a gradient, too
_RESHAPES = ("Reshape", "_backward_reshape")
_SCALES = ("_mul_scalar", "_div_scalar")
CASTS = ("amp_cast", "Cast")
_FLOAT32 = dtypes.code("float32")


def fuse_attention(graph: Graph) -> Graph:
    """Makes one operator of each attention."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("batch_dot"):
        found = _matched(graph, node)
        if found is None:
            continue
        params: Any = FusedAttentionParam(heads=found.heads, scale=found.scale)
        (made,), (end,) = (
            graph.apply(FUSED_ATTENTION, found.inputs, node.name, params, node.attrs),
            found.ends,
        )
        specs = [graph.specs[e] for e in found.inputs], [graph.specs[made]]
        if graph.specs[made] == graph.specs[end] and graph.has_kernel(FUSED_ATTENTION, params, *specs):
            mapping[end] = made
    return graph.replace(mapping)


class Scores(NamedTuple):
    """The nodes before the last product: `between` are those from the softmax's input back to the product.

    Where the softmax is computed in float32 of values in 16 bits, as in mixed precision, `between` has a cast, and
    `cast` is the one behind the softmax.
    """

    product: Node
    between: tuple[Node, ...]
    softmax: Node
    cast: Node | None
    scale: float


class _Attention(NamedTuple):
    """What one operator computes."""

    inputs: tuple[Entry, ...]
    ends: tuple[Entry, ...]
    heads: int
    scale: float


def _matched(graph: Graph, node: Node) -> _Attention | None:
    """The attention whose last product is a node."""
    if graph.only_reader(node.inputs[0]) is None or transposed_inputs(node) != (False, False):
        return None
    scores = scores_of(graph, node.inputs[0])
    if scores is None:
        return None
    inputs, end = (*scores.product.inputs, node.inputs[1]), (Entry(node),)
    if scores.cast is not None and _only_reader(graph, Entry(scores.softmax)) is None:
        return None
    if not plain(graph, inputs):
        return None
    return _Attention(*with_heads(graph, inputs, end), scores.scale)


def scores_of(graph: Graph, chances: Entry) -> Scores | None:
    """What makes the softmax of scaled products, if nothing else reads what is between."""
    cast = chances.node if is_cast(chances.node) else None
    softmax = chances.node if cast is None else cast.inputs[0].node
    if softmax.op is None or softmax.op.name != "softmax":
        return None
    p: Any = softmax.params
    entry = softmax.inputs[0]
    if p.axis not in (-1, len(graph.specs[entry].shape) - 1) or p.use_length or p.dtype is not None:
        return None
    if cast is not None and graph.specs[entry].dtype != _FLOAT32:
        return None
    scale, between = 1 / (p.temperature or 1.0), list[Node]()
    while (node := _made_by(graph, entry, *_SCALES, *CASTS)) is not None:
        if not is_cast(node):
            given: Any = node.params
            factor = float(given.scalar)
            if factor == 0:
                return None
            scale *= factor if node.op is not None and node.op.name == "_mul_scalar" else 1 / factor
        between.append(node)
        entry = node.inputs[0]
    casts = [node for node in between if is_cast(node)]
    product = _made_by(graph, entry, "batch_dot")
    if product is None or transposed_inputs(product) != (False, True) or len(casts) != int(cast is not None):
        return None
    return Scores(product, tuple(between), softmax, cast, scale)


def is_cast(node: Node) -> bool:
    """Whether only the type changes."""
    return node.op is not None and node.op.name in CASTS


def plain(graph: Graph, inputs: Sequence[Entry]) -> bool:
    """Whether query, key and value have three axes and one type."""
    specs = [graph.specs[entry] for entry in inputs]
    return all(len(spec.shape) == 3 for spec in specs) and len({spec.dtype for spec in specs}) == 1


def readers_of(graph: Graph, entry: Entry) -> list[tuple[Node, int]] | None:
    """What reads the elements of an entry, and at which input; None for an output of the graph."""
    if entry in graph.head_set:
        return None
    return [(node, i) for node, i in graph.readers.get(entry, ()) if i not in node.facts.unread]


def _only_reader(graph: Graph, entry: Entry) -> Node | None:
    found = readers_of(graph, entry)
    return found[0][0] if found is not None and len(found) == 1 else None


def _made_by(graph: Graph, entry: Entry, *ops: str) -> Node | None:
    """The node of one of these operators that makes an entry for one reader alone."""
    node = entry.node
    made = node.op is not None and node.op.name in ops
    return node if made and _only_reader(graph, entry) is not None else None


def transposed_inputs(node: Node) -> tuple[bool, bool]:
    """Of a batch_dot."""
    p: Any = node.params
    return p.transpose_a, p.transpose_b


def with_heads(
    graph: Graph, inputs: tuple[Entry, ...], ends: tuple[Entry, ...]
) -> tuple[tuple[Entry, ...], tuple[Entry, ...], int]:
    """Inputs, ends and heads of the same on what heads are cut out of, if all are such and are joined after."""
    cut = [entry for entry in (_cut(graph, entry) for entry in inputs) if entry is not None]
    examples = {graph.specs[entry].shape[0] for entry in cut}
    if len(cut) != len(inputs) or len(examples) != 1:
        return inputs, ends, 1
    (rows,) = examples
    heads = graph.specs[inputs[0]].shape[0] // rows
    joined = [entry for entry in (_joined(graph, end, rows, heads) for end in ends) if entry is not None]
    return (tuple(cut), tuple(joined), heads) if len(joined) == len(ends) else (inputs, ends, 1)


def _joined(graph: Graph, entry: Entry, rows: int, heads: int) -> Entry | None:
    """What makes (N, T, heads · depth) of the heads (N · heads, T, depth)."""
    product, length, depth = graph.specs[entry].shape
    for names in (_RESHAPES, ("transpose",), _RESHAPES):
        reader = _only_reader(graph, entry)
        if reader is None or reader.op is None or reader.op.name not in names:
            return None
        entry = Entry(reader)
        if reader.op.name == "transpose" and not _swaps(graph, reader, (rows, heads, length, depth)):
            return None
    right = product == rows * heads and graph.specs[entry].shape == (rows, length, heads * depth)
    return entry if right else None


def _cut(graph: Graph, entry: Entry) -> Entry | None:
    """x (N, T, heads · depth), where an entry is x's heads as (N · heads, T, depth)."""
    nodes = []
    for names in (_RESHAPES, ("transpose",), _RESHAPES):
        node = entry.node
        if node.op is None or node.op.name not in names:
            return None
        nodes.append(node)
        entry = node.inputs[0]
    (n, t, width), (product, length, depth) = _three(graph, entry), _three(graph, Entry(nodes[0]))
    heads = product // n if n else 0
    right = n * heads == product and length == t and heads * depth == width
    return entry if right and _swaps(graph, nodes[1], (n, t, heads, depth)) else None


def _three(graph: Graph, entry: Entry) -> tuple[int, ...]:
    shape = graph.specs[entry].shape
    return shape if len(shape) == 3 else (0, 0, 0)


def _swaps(graph: Graph, node: Node, shape: tuple[int, int, int, int]) -> bool:
    """Whether the two axes in the middle of this shape change places."""
    p: Any = node.params
    return graph.specs[node.inputs[0]].shape == shape and tuple(p.axes) == (0, 2, 1, 3)
