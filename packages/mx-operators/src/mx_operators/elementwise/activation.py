# SPDX-License-Identifier: Apache-2.0
"""Activation functions chosen by a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_core import expression as X
from mx_core.expression import Expression, Traced
from mx_core.operator import (
    Array,
    Arrays,
    Elementwise,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    SimpleOp,
    opt,
    required,
)
from mx_core.operator.derivative import Derivative
from mx_operators.nn.base import wide

_SQRT_HALF = 0.7071067811865476
_INV_SQRT_2PI = 0.3989422804014327
#: Klambauer et al., Self-Normalizing Neural Networks, NIPS 2017.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


class ActivationParam(Params):
    """Which function."""

    act_type: str = required("the function", choices=("relu", "sigmoid", "softrelu", "softsign", "tanh"))


class Activation(SimpleOp[ActivationParam]):
    """relu, sigmoid, softrelu (log(1 + eˣ)), softsign (x/(1 + |x|)) or tanh.

    Backward reads the output alone, except for softsign.
    """

    name = "Activation"

    def function(self, p: ActivationParam, data: Traced) -> Traced:
        table = {"relu": X.relu, "sigmoid": X.sigmoid, "softrelu": X.softplus, "tanh": X.tanh}
        return data / (1 + abs(data)) if p.act_type == "softsign" else table[p.act_type](data)

    def gradient_function(self, p: ActivationParam, out_grad: Traced, output: Traced) -> Traced:
        """Each derivative written in terms of the output."""
        if p.act_type == "relu":
            return X.where(output > 0, out_grad, 0.0)
        if p.act_type == "sigmoid":
            return out_grad * output * (1 - output)
        if p.act_type == "tanh":
            return out_grad * (1 - X.square(output))
        if p.act_type == "softsign":
            return out_grad * X.square(1 - abs(output))
        return out_grad * -X.expm1(-output)


class LeakyReLUParam(Params):
    """Which function, and its slope."""

    act_type: str = opt("leaky", "the function", choices=("elu", "gelu", "leaky", "prelu", "rrelu", "selu"))
    slope: float = opt(0.25, "slope for negative x (leaky), or scale (elu)", runtime=True)
    lower_bound: float = opt(0.125, "smallest random slope (rrelu)", runtime=True)
    upper_bound: float = opt(0.334, "largest random slope (rrelu)", runtime=True)


def _leaky(p: LeakyReLUParam, x: Traced) -> Traced:
    if p.act_type == "leaky":
        return X.where(x > 0, x, x * p.slope)
    if p.act_type == "elu":
        return X.where(x > 0, x, p.slope * X.expm1(x))
    if p.act_type == "selu":
        return _SELU_SCALE * X.where(x > 0, x, _SELU_ALPHA * X.expm1(x))
    if p.act_type == "gelu":
        return 0.5 * x * (1 + X.erf(x * _SQRT_HALF))
    middle = 0.5 * (p.lower_bound + p.upper_bound)
    return X.where(x > 0, x, x * middle)


def _leaky_gradient(p: LeakyReLUParam, g: Traced, x: Traced) -> Traced:
    if p.act_type == "leaky":
        return X.where(x > 0, g, g * p.slope)
    if p.act_type == "elu":
        return X.where(x > 0, g, g * p.slope * X.exp(x))
    if p.act_type == "selu":
        return g * _SELU_SCALE * X.where(x > 0, 1.0, _SELU_ALPHA * X.exp(x))
    cdf = 0.5 * (1 + X.erf(x * _SQRT_HALF))
    return g * (cdf + x * _INV_SQRT_2PI * X.exp(-0.5 * X.square(x)))


def _slopes_shape(gamma: Sequence[int], data: Sequence[int]) -> tuple[int, ...] | None:
    """The shape in which gamma broadcasts over data, its last axes first over channels, then over examples.

    None where it does not.
    """
    shape, left = [1] * len(data), list(gamma)
    for axis in range(min(2, len(data)) - 1, -1, -1):
        if left and left[-1] in (data[axis], 1):
            shape[axis] = left.pop()
    return None if left else tuple(shape)


def _slopes(gamma: Array, data: Array) -> Array:
    shape = _slopes_shape(gamma.shape, data.shape)
    assert shape is not None, "checked when shapes are inferred"
    return gamma.reshape(shape)


def _check_slopes(data: Sequence[int] | None, gamma: Sequence[int] | None, s: Shapes) -> None:
    if data is None or gamma is None or min((*data, *gamma), default=0) < 0:
        return
    if _slopes_shape(gamma, data) is None:
        raise s.error(
            f"gamma: cannot broadcast {tuple(gamma)} over the examples and channels of {tuple(data)}"
        )


class LeakyReLU(Elementwise[LeakyReLUParam]):
    """Leaky ReLU and its relatives: max(x, slope·x), elu, selu, gelu, prelu, rrelu.

    `prelu` learns the slope: `gamma` is (C,) or (1,). `rrelu` draws a slope per element from
    [lower_bound, upper_bound] in training and uses the middle otherwise; its slopes are a second
    output.
    """

    name = "LeakyReLU"
    input_attrs = {"gamma": {"__init__": '["Constant", {"value": 0.25}]'}}
    arguments = ("data", "gamma")
    is_random = True
    needs_train_flag = True

    def inputs(self, p: LeakyReLUParam) -> tuple[str, ...]:
        return ("data", "gamma") if p.act_type == "prelu" else ("data",)

    def outputs(self, p: LeakyReLUParam) -> tuple[str, ...]:
        """With the slopes of rrelu."""
        return ("output", "mask") if p.act_type == "rrelu" else ("output",)

    def expression(self, p: LeakyReLUParam) -> Expression | None:
        """None for prelu and rrelu, which are not elementwise."""
        if p.act_type in ("prelu", "rrelu"):
            return None
        return _traced(p, _leaky, 1)

    def infer_shape(self, p: LeakyReLUParam, s: Shapes) -> None:
        """gamma has one value per channel unless it is given as (1,)."""
        s.unify(["data", *self.outputs(p)])
        data = s.get("data")
        if p.act_type == "prelu" and s.get("gamma") is None and data is not None:
            s.assign("gamma", (data[1] if len(data) > 1 else 1,))
        if p.act_type == "prelu":
            _check_slopes(data, s.get("gamma"), s)

    def random_blocks(self, p: LeakyReLUParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Four slopes a block, for rrelu."""
        if p.act_type != "rrelu":
            return 0
        return (int(np.prod(output_shapes[0])) + 3) // 4

    def backward_operator(self) -> Operator[Any]:
        """An expression, but for prelu."""
        return BackwardLeakyReLU()

    def gradient(self, p: LeakyReLUParam, g: GradientBuilder) -> Gradients:
        if p.act_type == "rrelu":
            return g.op("elemwise_mul", (g.out_grad(), g.output("mask")))
        return g.op("_backward_LeakyReLU", (g.out_grad(), *g.inputs), params=p)

    def reference(self, p: LeakyReLUParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = inputs[0]
        if p.act_type == "prelu":
            return (np.where(x > 0, x, x * _slopes(inputs[1], x)).astype(x.dtype),)
        if p.act_type == "rrelu":
            return self._random(p, x, ctx)
        return super().reference(p, inputs, ctx)

    def _random(self, p: LeakyReLUParam, x: Array, ctx: ReferenceContext) -> Arrays:
        from mx_core import philox

        low, high = p.lower_bound, p.upper_bound
        slope: Array | float = 0.5 * (low + high)
        if ctx.is_train:
            u = philox.uniform(ctx.random_key, ctx.random_offset, x.size, np.float32)
            slope = low + (high - low) * u.reshape(x.shape)
        mask = np.where(x > 0, 1.0, slope).astype(x.dtype)
        return x * mask, mask


class BackwardLeakyReLU(Derivative[LeakyReLUParam]):
    """Gradient of LeakyReLU."""

    name = "_backward_LeakyReLU"
    arguments = ("out_grad", "data")
    results = ("data_grad",)

    def gradient(self, p: LeakyReLUParam, g: GradientBuilder) -> Gradients:
        """Derived; that of prelu is not offered."""
        return g.not_differentiable() if p.act_type == "prelu" else super().gradient(p, g)

    def inputs(self, p: LeakyReLUParam) -> tuple[str, ...]:
        return ("out_grad", "data", "gamma") if p.act_type == "prelu" else ("out_grad", "data")

    def outputs(self, p: LeakyReLUParam) -> tuple[str, ...]:
        """One per input of the forward operator."""
        return ("data_grad", "gamma_grad") if p.act_type == "prelu" else ("data_grad",)

    def expression(self, p: LeakyReLUParam) -> Expression | None:
        """None for prelu."""
        if p.act_type == "prelu":
            return None
        return _traced(p, _leaky_gradient, 2)

    def infer_shape(self, p: LeakyReLUParam, s: Shapes) -> None:
        """Gradients have the shapes of what they belong to."""
        s.unify(["out_grad", "data", "data_grad"])
        if p.act_type == "prelu":
            s.unify(["gamma", "gamma_grad"])
            _check_slopes(s.get("data"), s.get("gamma"), s)

    def reference(self, p: LeakyReLUParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The derivative; gamma's gradient is summed over all but the channels."""
        if p.act_type != "prelu":
            return super().reference(p, inputs, ctx)
        g, x, gamma = (wide(a) for a in inputs)
        slopes = _slopes(gamma, x)
        data_grad = np.where(x > 0, g, g * slopes).astype(inputs[1].dtype)
        axes = tuple(axis for axis, extent in enumerate(slopes.shape) if extent == 1)
        each = np.where(x > 0, 0, g * x).sum(axes)
        return data_grad, each.reshape(gamma.shape).astype(inputs[2].dtype)


def _traced(p: LeakyReLUParam, function: Callable[..., Traced], n_inputs: int) -> Expression:
    names = [f.name for f in p.fields() if f.runtime]

    class Parameters:
        act_type = p.act_type

    def build(*values: Traced) -> Traced:
        holder: Any = Parameters()
        for name, value in zip(names, values[n_inputs:], strict=True):
            setattr(holder, name, value)
        return function(holder, *values[:n_inputs])

    return X.trace(build, n_inputs, len(names))
