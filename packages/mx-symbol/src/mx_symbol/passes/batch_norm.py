# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation with known statistics is a scale and a shift per channel.

Behind a convolution or a fully connected layer they are folded into its weight and bias (Jacob et al.,
Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018,
section 3.2); elsewhere they become two elementwise operators, which fuse with their neighbours. Scale,
shift and folded weights are prepared: computed again only when a parameter was written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, changed

_FLOATS = frozenset(dtypes.code(name) for name in ("float32", "float64", "bfloat16", "float16"))
_CASTS = frozenset({"Cast", "amp_cast"})
_MARK = {PREPARED: "1"}


def fold_batch_norm(graph: Graph) -> Graph:
    """Replaces every BatchNorm whose statistics are variables."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("BatchNorm"):
        vectors = node.inputs[1:]
        fixed = all(entry.node.is_variable for entry in vectors)
        alone = not any(Entry(node, i) in graph.readers or Entry(node, i) in graph.head_set for i in (1, 2))
        if not fixed or not alone or graph.specs[Entry(node)].dtype not in _FLOATS:
            continue
        affine = _affine(graph, node)
        before = node.inputs[0]
        linear = before.node if graph.only_reader(before) is not None else None
        if linear is not None and _may_fold(graph, linear, node):
            mapping[Entry(node)] = _folded(graph, linear, node, affine)
        else:
            mapping[Entry(node)] = _applied(graph, node, affine)
    return graph.replace(mapping)


class _Affine(NamedTuple):
    scale: Entry
    shift: Entry


def _affine(graph: Graph, node: Node) -> _Affine:
    """gamma / √(var + eps), and beta − mean · that."""
    p: Any = node.params
    _, gamma, beta, mean, var = node.inputs

    def make(op: str, *inputs: Entry, **values: Any) -> Entry:
        return graph.apply(op, inputs, f"{node.name}_{op.strip('_')}", attrs=_MARK, **values)[0]

    inverse = make("rsqrt", make("_plus_scalar", var, scalar=p.eps))
    scale = inverse if p.fix_gamma else make("elemwise_mul", gamma, inverse)
    return _Affine(scale, make("elemwise_sub", beta, make("elemwise_mul", mean, scale)))


def _applied(graph: Graph, node: Node, affine: _Affine) -> Entry:
    """x · scale + shift along the channel axis."""
    p: Any = node.params
    rank = len(graph.specs[Entry(node)].shape)
    shape = tuple(-1 if axis == p.axis % rank else 1 for axis in range(rank))
    scale, shift = (
        graph.apply(
            "Reshape", (_as(graph, v, node.inputs[0]),), f"{node.name}_{what}", attrs=_MARK, shape=shape
        )[0]
        for v, what in zip(affine, ("scale", "shift"), strict=True)
    )
    (scaled,) = graph.apply("broadcast_mul", (node.inputs[0], scale), f"{node.name}_scaled")
    return graph.apply("broadcast_add", (scaled, shift), node.name)[0]


def _may_fold(graph: Graph, linear: Node, node: Node) -> bool:
    """True for a linear layer with variables as parameters whose channels the norm runs along."""
    p: Any = node.params
    if linear.op is None or not all(_is_fixed(e) for e in linear.inputs[1:]):
        return False
    rank = len(graph.specs[Entry(linear)].shape)
    layer: Any = linear.params
    if linear.op.name == "Convolution":
        last = layer.layout is not None and layer.layout.endswith("C")
        return bool(p.axis % rank == (rank - 1 if last else 1))
    return linear.op.name == "FullyConnected" and rank == 2 and p.axis % rank == 1


def _is_fixed(entry: Entry) -> bool:
    return entry.node.is_variable or PREPARED in entry.node.attrs


def _folded(graph: Graph, linear: Node, node: Node, affine: _Affine) -> Entry:
    """The layer with scaled weight and shifted bias."""
    weight, *bias = linear.inputs[1:]
    rank = len(graph.specs[weight].shape)

    def make(op: str, *inputs: Entry, **values: Any) -> Entry:
        return graph.apply(op, inputs, f"{linear.name}_folded_{op}", attrs=_MARK, **values)[0]

    scale = make("Reshape", affine.scale, shape=(-1, *(1,) * (rank - 1)))
    scaled = make("broadcast_mul", _before_cast(graph, weight, scale), scale)
    shift = affine.shift
    for entry in bias:
        moved = make("elemwise_mul", _before_cast(graph, entry, scale), affine.scale)
        shift = make("elemwise_add", shift, moved)
    assert linear.params is not None and linear.op is not None
    params = changed(linear.params, no_bias=False)
    data = linear.inputs[0]
    inputs = (data, _as(graph, scaled, data), _as(graph, shift, data))
    return graph.apply(linear.op, inputs, node.name, params, attrs=linear.attrs)[0]


def _as(graph: Graph, entry: Entry, like: Entry) -> Entry:
    """An entry in the type of another."""
    code = graph.specs[like].dtype
    if graph.specs[entry].dtype == code:
        return entry
    return graph.apply("Cast", (entry,), f"{entry.name}_cast", attrs=_MARK, dtype=dtypes.name(code))[0]


def _before_cast(graph: Graph, entry: Entry, like: Entry) -> Entry:
    """A parameter in the type of another entry, from before it was cast where it was."""
    op = entry.node.op
    if graph.specs[entry].dtype != graph.specs[like].dtype and op is not None and op.name in _CASTS:
        entry = entry.node.inputs[0]
    return _as(graph, entry, like)
