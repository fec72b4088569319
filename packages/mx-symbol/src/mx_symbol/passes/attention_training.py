# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · Q Kᵀ) V and its gradients in a training step as two operators, which keep no scores between them.

The first one also writes the logarithm of the sum of powers of each row, of which the second makes the scores again
(Dao et al., FlashAttention, 2022). It is done where kernels take both; elsewhere the graph stays as it is. Heads that
were cut out of the last axis before, and joined there after, stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator
from mx_core.operator.declaration import ReferenceContext
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.attention import (
    FusedAttentionParam,
    Scores,
    is_cast,
    plain,
    readers_of,
    scores_of,
    transposed_inputs,
    with_heads,
)


class FusedAttentionTraining(Operator[FusedAttentionParam]):
    """softmax(scale · query keyᵀ) value, for each head, over (N, T, heads · depth), and statistics (N, heads, T).

    Statistics are log Σ exp of the scaled scores of a row, in float32.
    """

    name = "_fused_attention_training"
    arguments = ("query", "key", "value")
    results = ("output", "statistics")
    differentiable = False  # after differentiation
    custom_gradient = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Rows of the query, columns of the value."""
        query, value = s.known("query"), s.known("value")
        if query is not None and value is not None:
            s.assign("output", (*query[:2], value[2]))
            s.assign("statistics", (query[0], p.heads, query[1]))

    def infer_type(self, p: Any, t: Any) -> None:
        """One type; statistics are float32."""
        t.unify(["query", "key", "value", "output"])
        t.assign("statistics", dtypes.code("float32"))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Head by head, in double."""
        q, k, v = (_heads(x, p.heads) for x in inputs)
        log = _statistics(p, q, k)
        y = np.exp(p.scale * (q @ k.swapaxes(2, 3)) - log[..., None]) @ v
        return _joined(y, inputs[0]), log.astype(np.float32)


class FusedAttentionGradient(Operator[FusedAttentionParam]):
    """The gradients of query, key and value."""

    name = "_fused_attention_gradient"
    arguments = ("out_grad", "query", "key", "value", "output", "statistics")
    results = ("query_grad", "key_grad", "value_grad")
    differentiable = False  # after differentiation
    custom_gradient = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Those of query, key and value."""
        for name in ("query", "key", "value"):
            s.unify([name, f"{name}_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """One type."""
        t.unify(["out_grad", "query", "key", "value", "output", "query_grad", "key_grad", "value_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Head by head, in double."""
        g, q, k, v, y = (_heads(x, p.heads) for x in inputs[:5])
        chances = np.exp(p.scale * (q @ k.swapaxes(2, 3)) - np.asarray(inputs[5], np.float64)[..., None])
        change = p.scale * chances * (g @ v.swapaxes(2, 3) - (g * y).sum(-1, keepdims=True))
        made = (change @ k, change.swapaxes(2, 3) @ q, chances.swapaxes(2, 3) @ g)
        return tuple(_joined(x, like) for x, like in zip(made, inputs[1:4], strict=True))


def _heads(x: Any, heads: int) -> Any:
    """(N, T, heads · depth) as (N, heads, T, depth)."""
    return np.asarray(x, np.float64).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _joined(x: Any, like: Any) -> Any:
    """The way back, in the type of an input."""
    n, heads, rows, depth = x.shape
    return x.swapaxes(1, 2).reshape(n, rows, heads * depth).astype(like.dtype)


def _statistics(p: Any, q: Any, k: Any) -> Any:
    scores = p.scale * (q @ k.swapaxes(2, 3))
    most = scores.max(-1)
    return most + np.log(np.exp(scores - most[..., None]).sum(-1))


FUSED_ATTENTION_TRAINING = FusedAttentionTraining()
FUSED_ATTENTION_GRADIENT = FusedAttentionGradient()


def fuse_attention_training(graph: Graph) -> Graph:
    """Makes two operators of each attention and its gradients."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("batch_dot") if graph.grads else ():
        found = _matched(graph, node)
        if found is not None:
            mapping.update(_made(graph, node, found))
    return graph.replace(mapping)


class _Found(NamedTuple):
    """query, key, value and the gradient of the output; the output and the gradients of the first three."""

    inputs: tuple[Entry, ...]
    ends: tuple[Entry, ...]
    heads: int
    scale: float


def _matched(graph: Graph, node: Node) -> _Found | None:
    """The attention whose last product is a node, if its gradients by all three are there and read alone."""
    scores = scores_of(graph, node.inputs[0])
    # where columns of the chances are used, it is the gradient of the value that looks like the last product
    if scores is None or node not in graph.forward or transposed_inputs(node) != (False, False):
        return None
    inputs = (*scores.product.inputs, node.inputs[1])
    readers = _readers_of_chances(graph, scores)
    if not plain(graph, inputs) or readers is None or len(readers) != 3:
        return None
    of_value = next((n for n, i in readers if i == 0 and _is_product(n, (True, False))), None)
    softmax = next((n for n, i in readers if i == 1 and _is(n, "_backward_softmax")), None)
    if of_value is None or softmax is None or softmax.params != scores.softmax.params:
        return None
    head = of_value.inputs[1]
    gradients = _of_products(graph, scores, softmax)
    if gradients is None or not _begins(graph, scores, softmax, (head, inputs[2])):
        return None
    ends = (Entry(node), *gradients, Entry(of_value))
    return _Found(*with_heads(graph, (*inputs, head), ends), scores.scale)


def _readers_of_chances(graph: Graph, scores: Scores) -> list[tuple[Node, int]] | None:
    """Of the softmax, and of what it is cast to."""
    readers = readers_of(graph, Entry(scores.softmax))
    if scores.cast is None or readers is None:
        return readers
    others = readers_of(graph, Entry(scores.cast))
    return None if others is None else [r for r in readers if r[0] is not scores.cast] + others


def _begins(graph: Graph, scores: Scores, softmax: Node, factors: tuple[Entry, Entry]) -> bool:
    """Whether the gradient of the softmax reads the product of these, which nothing else reads."""
    reader, change = softmax, softmax.inputs[0]
    if scores.cast is not None:
        if not _is(change.node, "_backward_Cast") or readers_of(graph, change) != [(reader, 0)]:
            return False
        reader, change = change.node, change.node.inputs[0]
    product = _is_product(change.node, (False, True)) and tuple(change.node.inputs) == factors
    return product and readers_of(graph, change) == [(reader, 0)]


def _of_products(graph: Graph, scores: Scores, softmax: Node) -> tuple[Entry, Entry] | None:
    """Gradients of query and key, of that of the softmax's input."""
    change = Entry(softmax)
    for node in scores.between:
        back = _only_gradient(graph, change, node)
        if back is None:
            return None
        change = Entry(back)
    readers = readers_of(graph, change)
    if readers is None or len(readers) != 2 or any(i != 0 for _, i in readers):
        return None
    query, key = scores.product.inputs
    of_query = next((n for n, _ in readers if _is_product(n, (False, False)) and n.inputs[1] == key), None)
    of_key = next((n for n, _ in readers if _is_product(n, (True, False)) and n.inputs[1] == query), None)
    return None if of_query is None or of_key is None else (Entry(of_query), Entry(of_key))


def _only_gradient(graph: Graph, change: Entry, node: Node) -> Node | None:
    """What makes the gradient of a node's input of that of its output, if nothing else reads the latter."""
    readers = readers_of(graph, change)
    if readers is None or len(readers) != 1 or node.op is None:
        return None
    back = readers[0][0]
    if is_cast(node):
        return back if _is(back, "_backward_Cast") else None
    return back if _is(back, f"_backward_{node.op.name}") and back.params == node.params else None


def _is(node: Node, name: str) -> bool:
    return node.op is not None and node.op.name == name


def _is_product(node: Node, transposed: tuple[bool, bool]) -> bool:
    return _is(node, "batch_dot") and transposed_inputs(node) == transposed


def _made(graph: Graph, node: Node, found: _Found) -> dict[Entry, Entry]:
    """What stands for what, where both operators have kernels."""
    params: Any = FusedAttentionParam(heads=found.heads, scale=found.scale)
    *inputs, head = found.inputs
    output, statistics = graph.apply(FUSED_ATTENTION_TRAINING, inputs, node.name, params, node.attrs)
    read = (head, *inputs, output, statistics)
    made = graph.apply(FUSED_ATTENTION_GRADIENT, read, f"{node.name}_backward", params, node.attrs)
    mapping = dict(zip(found.ends, (output, *made), strict=True))
    same = all(graph.specs[old] == graph.specs[new] for old, new in mapping.items())

    def specs(entries: Sequence[Entry]) -> list[TensorSpec]:
        return [graph.specs[entry] for entry in entries]

    served = same and all(
        graph.has_kernel(op, params, specs(taken), specs(given))
        for op, taken, given in (
            (FUSED_ATTENTION_TRAINING, inputs, (output, statistics)),
            (FUSED_ATTENTION_GRADIENT, read, made),
        )
    )
    return mapping if served else {}
