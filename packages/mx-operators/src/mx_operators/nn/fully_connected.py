# SPDX-License-Identifier: Apache-2.0
"""FullyConnected: data · weightᵀ + bias."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardProduct
from mx_operators.nn.base import wide


@param
class FullyConnectedParam:
    """Width, bias, and what counts as a row."""

    num_hidden: int = required("columns of the result", lower=1)
    no_bias: bool = opt(False, "leave out the bias")
    flatten: bool = opt(True, "all axes but the first are one; else only the last is multiplied")


def rows(x: Any, flatten: bool) -> Any:
    """data as a matrix."""
    lead = 1 if flatten else x.ndim - 1
    return x.reshape(prod(x.shape[:lead]), prod(x.shape[lead:]))


def _completed(axes: tuple[int, ...], total: int) -> tuple[int, ...]:
    """The axes, where one is unknown and the product of all is known."""
    rest = prod(extent for extent in axes if extent != -1)
    if axes.count(-1) != 1 or total == -1 or rest == 0 or total % rest:
        return axes
    return tuple(total // rest if extent == -1 else extent for extent in axes)


class FullyConnected(OperatorProperty):
    """data (N, …) and weight (H, D) give (N, H); without flatten (…, D) gives (…, H)."""

    name = "FullyConnected"
    Param = FullyConnectedParam
    arguments = ("data", "weight", "bias")

    def inputs(self, p: Any) -> tuple[str, ...]:
        """bias unless no_bias."""
        return ("data", "weight") if p.no_bias else ("data", "weight", "bias")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Weight and bias from data; the batch axes also backwards."""
        if not p.no_bias:
            s.assign("bias", (p.num_hidden,))
        weight = s.get("weight")
        s.assign("weight", (p.num_hidden, -1))
        data, output = s.get("data"), s.get("output")
        if data is None:
            if output is not None and not p.flatten and weight is not None and len(weight) == 2:
                s.assign("data", (*output[:-1], weight[1]))
            return
        if not data:
            raise s.error("data: expected at least one dimension, got ()")
        depth = data[-1] if not p.flatten else (-1 if -1 in data[1:] else prod(data[1:]))
        s.assign("weight", (p.num_hidden, depth))
        lead = data[:1] if p.flatten else data[:-1]
        s.assign("output", (*lead, p.num_hidden))
        known = s.get("output")
        tail = _completed(data[1:] if p.flatten else data[-1:], s.get("weight")[1])
        s.assign("data", (*known[: len(lead)], *tail))

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients."""
        return g.op("_backward_FullyConnected", (g.out_grad(), g.input(0), g.input(1)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardFullyConnected(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A matrix product."""
        x, w = wide(inputs[0]), wide(inputs[1])
        y = rows(x, p.flatten) @ w.T
        if not p.no_bias:
            y = y + wide(inputs[2])
        lead = x.shape[:1] if p.flatten else x.shape[:-1]
        return (y.reshape(*lead, p.num_hidden).astype(inputs[0].dtype),)


class BackwardFullyConnected(BackwardProduct):
    """Gradients of FullyConnected with respect to data, weight and bias."""

    name = "_backward_FullyConnected"
    Param = FullyConnectedParam

    def bias_size(self, p: Any) -> int:
        """num_hidden."""
        return int(p.num_hidden)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Two matrix products and a sum."""
        g, x, w = (wide(a) for a in inputs)
        heads, data = rows(g, False), rows(x, p.flatten)
        grads = [(heads @ w).reshape(x.shape), heads.T @ data]
        if not p.no_bias:
            grads.append(heads.sum(0))
        return tuple(grad.astype(inputs[0].dtype) for grad in grads)


OPERATORS: tuple[type[OperatorProperty], ...] = (FullyConnected,)
