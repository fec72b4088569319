# SPDX-License-Identifier: Apache-2.0
"""softmax, log_softmax, softmin, SoftmaxActivation."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, inf, prod
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_core.operator.refusal import refusal
from mx_operators.nn.base import positive_axis, wide


@param
class SoftmaxParam:
    """Axis, temperature, and how much of the axis counts."""

    axis: int = opt(-1, "the axis that sums to 1")
    temperature: float | None = opt(None, "data are divided by it first")
    dtype: str | None = opt(None, "type of the result", choices=("float16", "float32", "float64", None))
    use_length: bool | None = opt(False, "only the first `length` entries of the axis count")


def softmax(x: Any, axis: int) -> Any:
    """exp(x − max) normalised to sum 1."""
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class _Softmax(OperatorProperty):
    """Shared declaration; `_forward` and the sign of the exponent differ."""

    Param = SoftmaxParam
    arguments = ("data", "length")
    sign = 1.0

    def inputs(self, p: Any) -> tuple[str, ...]:
        """length with use_length."""
        return ("data", "length") if p.use_length else ("data",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data; length has the shape of data without the axis."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        axis = positive_axis(p.axis, len(data))
        if not 0 <= axis < max(len(data), 1):
            raise s.error(f"axis: expected −{len(data)} to {len(data) - 1}, got {p.axis}")
        if p.use_length:
            s.assign("length", data[:axis] + data[axis + 1 :])

    def infer_type(self, p: Any, t: Any) -> None:
        """As data unless dtype is given; length is an integer."""
        t.assign("output", p.dtype if p.dtype is not None else t.get("data"))
        if p.dtype is None:
            t.assign("data", t.get("output"))
        if p.use_length and t.get("length") is None:
            t.assign("length", "int32")

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Row by row."""
        return ((0, 0),) if p.dtype is None and not p.use_length else ()

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs the output; lengths have no gradient."""
        kept = [g.out_grad(), g.output(0)] + ([g.input(1)] if p.use_length else [])
        grad = g.op(f"_backward_{self.name}", kept, params=p)[0]
        if p.dtype is not None:
            grad = g.op("_backward_Cast", (grad, g.input(0)))[0]
        return [grad, *([None] if p.use_length else [])]

    def _values(self, x: Any, axis: int) -> Any:
        return softmax(self.sign * x, axis)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Along the axis; positions beyond a length are 0."""
        x = wide(inputs[0])
        x = x if x.dtype.kind == "f" else x.astype(np.float64)
        axis = positive_axis(p.axis, x.ndim)
        if p.temperature is not None:
            x = x / x.dtype.type(p.temperature)
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype)) if p.dtype else inputs[0].dtype
        if not p.use_length:
            return (self._values(x, axis).astype(dtype),)
        inside = _inside(x.shape, inputs[1], axis)
        far = np.finfo(x.dtype).min / 4 * self.sign
        y = self._values(np.where(inside, x, x.dtype.type(far)), axis)
        return (np.where(inside, y, 0).astype(dtype),)


def _inside(shape: tuple[int, ...], length: Any, axis: int) -> Any:
    position = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return position < np.expand_dims(length, axis)


class _Composer:
    """The operators that gradients of gradients are made of."""

    def __init__(self, g: Any, axis: int) -> None:
        self._g = g
        self._axis = axis

    def times(self, a: Any, b: Any) -> Any:
        return self._g.op("broadcast_mul", (a, b))[0]

    def minus(self, a: Any, b: Any) -> Any:
        return self._g.op("broadcast_sub", (a, b))[0]

    def exp(self, a: Any) -> Any:
        return self._g.op("exp", (a,))[0]

    def negative(self, a: Any) -> Any:
        return self._g.op("negative", (a,))[0]

    def sum(self, a: Any) -> Any:
        """Along the axis, which stays."""
        return self._g.op("sum", (a,), axis=self._axis, keepdims=True)[0]


class _BackwardSoftmax(OperatorProperty):
    Param = SoftmaxParam
    arguments = ("out_grad", "output", "length")
    results = ("data_grad",)
    sign = 1.0

    def inputs(self, p: Any) -> tuple[str, ...]:
        """length with use_length."""
        return self.arguments if p.use_length else self.arguments[:2]

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward operator's output."""
        s.unify(["out_grad", "output", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """In the type of the output."""
        t.unify(["out_grad", "output", "data_grad"])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Row by row."""
        return ((0, 0), (1, 0))

    def gradient(self, p: Any, g: Any) -> Any:
        """By out_grad, and through the output; not offered with lengths."""
        if p.use_length:
            return refusal(self, p, g)
        by_out_grad, by_output = self._second(p, _Composer(g, p.axis), g.out_grad(), g.input(0), g.input(1))
        divisor = 1.0 if p.temperature is None else p.temperature
        factor = self.sign / divisor if divisor else copysign(inf, divisor * self.sign)
        return [g.op("_mul_scalar", (entry,), scalar=factor)[0] for entry in (by_out_grad, by_output)]

    def _second(self, p: Any, do: _Composer, head: Any, out_grad: Any, y: Any) -> tuple[Any, Any]:
        """Of Σ head·(y·(g − Σ g·y)): y·(head − Σ head·y), and head·(g − Σ g·y) − g·Σ head·y."""
        heads, grads = do.sum(do.times(head, y)), do.sum(do.times(out_grad, y))
        by_output = do.minus(do.times(head, do.minus(out_grad, grads)), do.times(out_grad, heads))
        return do.times(y, do.minus(head, heads)), by_output

    def _gradient(self, g: Any, y: Any, axis: int) -> Any:
        return y * (g - (g * y).sum(axis, keepdims=True))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The Jacobian applied to out_grad."""
        g, y = wide(inputs[0]), wide(inputs[1])
        axis = positive_axis(p.axis, y.ndim)
        if p.use_length:
            inside = _inside(y.shape, inputs[2], axis)
            g = np.where(inside, g, 0)
        dx = self.sign * self._gradient(g, y, axis)
        if p.use_length:
            dx = np.where(inside, dx, 0)
        if p.temperature is not None:
            dx = dx / dx.dtype.type(p.temperature)
        return (dx.astype(inputs[0].dtype),)


class BackwardSoftmax(_BackwardSoftmax):
    """Gradient of softmax."""

    name = "_backward_softmax"


class BackwardSoftmin(_BackwardSoftmax):
    """Gradient of softmin."""

    name = "_backward_softmin"
    sign = -1.0


class BackwardLogSoftmax(_BackwardSoftmax):
    """Gradient of log_softmax."""

    name = "_backward_log_softmax"

    def _second(self, p: Any, do: _Composer, head: Any, out_grad: Any, y: Any) -> tuple[Any, Any]:
        """Of Σ head·(g − eʸ·Σ g): head − Σ head·eʸ, and −head·eʸ·Σ g."""
        shares = do.times(head, do.exp(y))
        return do.minus(head, do.sum(shares)), do.negative(do.times(shares, do.sum(out_grad)))

    def _gradient(self, g: Any, y: Any, axis: int) -> Any:
        return g - np.exp(y) * g.sum(axis, keepdims=True)


class Softmax(_Softmax):
    """exp(x/T) / Σ exp(x/T) along an axis."""

    name = "softmax"

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSoftmax(),)


class Softmin(_Softmax):
    """softmax of −x."""

    name = "softmin"
    sign = -1.0

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSoftmin(),)


class LogSoftmax(_Softmax):
    """log(softmax(x)), computed without overflow."""

    name = "log_softmax"

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardLogSoftmax(),)

    def _values(self, x: Any, axis: int) -> Any:
        if x.size == 0:
            return x
        shifted = x - x.max(axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@param
class SoftmaxActivationParam:
    """Over what."""

    mode: str = opt("instance", "over all of an example, or over channels", choices=("channel", "instance"))


class SoftmaxActivation(OperatorProperty):
    """softmax over everything but the first axis, or (mode channel) over axis 1."""

    name = "SoftmaxActivation"
    Param = SoftmaxActivationParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data, which has an axis behind the first."""
        super().infer_shape(p, s)
        data = s.get("data")
        if data is not None and len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs the output."""
        return g.op("_backward_SoftmaxActivation", (g.out_grad(), g.output()), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSoftmaxActivation(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """softmax of a reshaped view."""
        x = wide(inputs[0])
        view = x if p.mode == "channel" else x.reshape(x.shape[0], prod(x.shape[1:]))
        return (softmax(view, 1).reshape(x.shape).astype(inputs[0].dtype),)


class BackwardSoftmaxActivation(OperatorProperty):
    """Gradient of SoftmaxActivation."""

    name = "_backward_SoftmaxActivation"
    Param = SoftmaxActivationParam
    arguments = ("out_grad", "output")
    results = ("data_grad",)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The Jacobian applied to out_grad."""
        g, y = wide(inputs[0]), wide(inputs[1])
        shape = y.shape
        if p.mode == "instance":
            g, y = (a.reshape(shape[0], prod(shape[1:])) for a in (g, y))
        dx = y * (g - (g * y).sum(1, keepdims=True))
        return (dx.reshape(shape).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Softmax, Softmin, LogSoftmax, SoftmaxActivation)
