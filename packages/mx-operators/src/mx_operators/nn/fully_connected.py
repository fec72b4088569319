# SPDX-License-Identifier: Apache-2.0
"""FullyConnected: data · weightᵀ + bias."""

from __future__ import annotations

from math import prod

from mx_core.operator import (
    Array,
    Arrays,
    ReferenceContext,
    Shapes,
    opt,
    required,
)
from mx_operators.bilinear import Biased, BiasedParam
from mx_operators.nn.base import wide


class FullyConnectedParam(BiasedParam):
    """Width, bias, and what counts as a row."""

    num_hidden: int = required("columns of the result", lower=1)
    no_bias: bool = opt(False, "leave out the bias")
    flatten: bool = opt(True, "all axes but the first are one; else only the last is multiplied")


def rows(x: Array, flatten: bool) -> Array:
    """data as a matrix."""
    lead = 1 if flatten else x.ndim - 1
    return x.reshape(prod(x.shape[:lead]), prod(x.shape[lead:]))


def _completed(axes: tuple[int, ...], total: int) -> tuple[int, ...]:
    """The axes, where one is unknown and the product of all is known."""
    rest = prod(extent for extent in axes if extent != -1)
    if axes.count(-1) != 1 or total == -1 or rest == 0 or total % rest:
        return axes
    return tuple(total // rest if extent == -1 else extent for extent in axes)


class FullyConnected(Biased[FullyConnectedParam]):
    """data (N, …) and weight (H, D) give (N, H); without flatten (…, D) gives (…, H)."""

    name = "FullyConnected"

    def infer_shape(self, p: FullyConnectedParam, s: Shapes) -> None:
        """Weight and bias from data, if its rank is known; the batch axes also backwards."""
        data, weight, output = s.get("data"), s.get("weight"), s.get("output")
        if data is None:
            if output is not None and not p.flatten and weight is not None and len(weight) == 2:
                s.assign("data", (*output[:-1], weight[1]))
            return
        if not p.no_bias:
            s.assign("bias", (p.num_hidden,))
        if not data:
            raise s.error("data: expected at least one dimension, got ()")
        depth = data[-1] if not p.flatten else (-1 if -1 in data[1:] else prod(data[1:]))
        s.assign("weight", (p.num_hidden, depth))
        lead = data[:1] if p.flatten else data[:-1]
        s.assign("output", (*lead, p.num_hidden))
        if -1 not in data:
            return
        known = s.ranked("output")
        tail = _completed(data[1:] if p.flatten else data[-1:], s.ranked("weight")[1])
        s.assign("data", (*known[: len(lead)], *tail))

    def reference(self, p: FullyConnectedParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x, w = wide(inputs[0]), wide(inputs[1])
        y = rows(x, p.flatten) @ w.T
        if not p.no_bias:
            y = y + wide(inputs[2])
        lead = x.shape[:1] if p.flatten else x.shape[:-1]
        return (y.reshape(*lead, p.num_hidden).astype(inputs[0].dtype),)

    def backward(self, p: FullyConnectedParam, out_grad: Array, data: Array, weight: Array) -> Arrays:
        """Two matrix products and a sum."""
        heads, x = rows(out_grad, False), rows(data, p.flatten)
        grads = ((heads @ weight).reshape(data.shape), heads.T @ x, heads.sum(0))
        return grads[: len(self.inputs(p))]
