# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation with known statistics is a scale and a shift per channel.

Behind a convolution or a fully connected layer they are folded into its weight and bias (Jacob et al.,
Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018,
section 3.2); elsewhere they become elementwise operators, which fuse with their neighbours. Scale, shift and
folded weights are prepared: computed again only when a parameter was written. With an eps of 0 nothing is
folded: where a variance is 0 the scale is infinite, and products with it are not what the operator computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, changed
from mx_symbol.passes.affine import AFFINE

_FLOATS = frozenset(dtypes.code(name) for name in ("float32", "float64", "bfloat16", "float16"))
_CASTS = frozenset({"Cast", "amp_cast"})
_MARK = {PREPARED: "1"}
#: below, the sum of a variance of 0 and eps may be 0 in float32
_LEAST_EPS = 2.0**-126


def fold_batch_norm(graph: Graph) -> Graph:
    """Replaces every BatchNorm whose statistics are variables."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("BatchNorm"):
        vectors = node.inputs[1:]
        fixed = all(entry.node.is_variable for entry in vectors)
        alone = not any(Entry(node, i) in graph.readers or Entry(node, i) in graph.head_set for i in (1, 2))
        p: Any = node.params
        if p.eps < _LEAST_EPS or not fixed or not alone or graph.specs[Entry(node)].dtype not in _FLOATS:
            continue
        before = node.inputs[0]
        linear = before.node if graph.only_reader(before) is not None else None
        if linear is not None and _may_fold(graph, linear, node):
            mapping[Entry(node)] = _folded(graph, linear, node)
        else:
            mapping[Entry(node)] = _applied(graph, node)
    return graph.replace(mapping)


def _affine(graph: Graph, node: Node, bias: Sequence[Entry] = ()) -> tuple[Entry, ...]:
    """Scale and shift of a normalisation after a layer with a bias, or without."""
    p: Any = node.params
    _, gamma, *vectors = node.inputs
    inputs = (*vectors, *bias) if p.fix_gamma else (gamma, *vectors, *bias)
    values = {"eps": p.eps, "fix_gamma": p.fix_gamma, "biased": bool(bias)}
    return graph.apply(AFFINE, inputs, f"{node.name}_affine", attrs=_MARK, **values)


def _applied(graph: Graph, node: Node) -> Entry:
    """(x − mean) · scale + beta along the channel axis, computed in the type of the statistics.

    beta − mean · scale as one shift would lose the digits that x and the mean have in common.
    """
    p: Any = node.params
    data, beta, mean = node.inputs[0], node.inputs[-3], node.inputs[-2]
    rank = len(graph.specs[Entry(node)].shape)
    shape = tuple(-1 if axis == p.axis % rank else 1 for axis in range(rank))

    def along(vector: Entry, what: str) -> Entry:
        return graph.apply("Reshape", (vector,), f"{node.name}_{what}", attrs=_MARK, shape=shape)[0]

    scale = _affine(graph, node)[0]
    code = graph.specs[scale].dtype
    (centred,) = graph.apply(
        "broadcast_sub", (_converted(graph, data, code), along(mean, "mean")), f"{node.name}_centred"
    )
    (scaled,) = graph.apply("broadcast_mul", (centred, along(scale, "scale")), f"{node.name}_scaled")
    (shifted,) = graph.apply("broadcast_add", (scaled, along(beta, "beta")), node.name)
    return _converted(graph, shifted, graph.specs[data].dtype)


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


def _folded(graph: Graph, linear: Node, node: Node) -> Entry:
    """The layer with scaled weight and shifted bias."""
    weight, *bias = linear.inputs[1:]
    rank = len(graph.specs[weight].shape)
    variance = node.inputs[-1]
    scale, shift = _affine(graph, node, [_before_cast(graph, entry, variance) for entry in bias])
    named = f"{linear.name}_folded"
    shape = (-1, *(1,) * (rank - 1))
    (rows,) = graph.apply("Reshape", (scale,), f"{named}_scale", attrs=_MARK, shape=shape)
    whole = _before_cast(graph, weight, scale)
    (scaled,) = graph.apply("broadcast_mul", (whole, rows), named, attrs=_MARK)
    assert linear.params is not None and linear.op is not None
    params = changed(linear.params, no_bias=False)
    data = linear.inputs[0]
    inputs = (data, _as(graph, scaled, data), _as(graph, shift, data))
    return graph.apply(linear.op, inputs, node.name, params, attrs=linear.attrs)[0]


def _as(graph: Graph, entry: Entry, like: Entry) -> Entry:
    """A parameter in the type of another entry."""
    return _converted(graph, entry, graph.specs[like].dtype, _MARK)


def _converted(graph: Graph, entry: Entry, code: int, attrs: Mapping[str, str] | None = None) -> Entry:
    if graph.specs[entry].dtype == code:
        return entry
    return graph.apply("Cast", (entry,), f"{entry.name}_cast", attrs=attrs, dtype=dtypes.name(code))[0]


def _before_cast(graph: Graph, entry: Entry, like: Entry) -> Entry:
    """A parameter in the type of another entry, from before it was cast where it was."""
    op = entry.node.op
    if graph.specs[entry].dtype != graph.specs[like].dtype and op is not None and op.name in _CASTS:
        entry = entry.node.inputs[0]
    return _as(graph, entry, like)
