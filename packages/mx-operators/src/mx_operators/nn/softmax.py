# SPDX-License-Identifier: Apache-2.0
"""softmax, log_softmax, softmin, SoftmaxActivation."""

from __future__ import annotations

from math import copysign, inf, prod
from typing import NamedTuple

import numpy as np

from mx_core import dtypes
from mx_core.operator import (
    Array,
    Arrays,
    Entry,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    Types,
    opt,
)
from mx_operators.nn.base import positive_axis, wide


class SoftmaxParam(Params):
    """Axis, temperature, and how much of the axis counts."""

    axis: int = opt(-1, "the axis that sums to 1")
    temperature: float | None = opt(None, "data are divided by it first")
    dtype: str | None = opt(None, "type of the result", choices=("float16", "float32", "float64", None))
    use_length: bool | None = opt(False, "only the first `length` entries of the axis count")


def softmax(x: Array, axis: int) -> Array:
    """exp(x − max) normalised to sum 1."""
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class _Softmax(Operator[SoftmaxParam]):
    """Shared declaration; the sign of the exponent and what is made of it differ."""

    arguments = ("data", "length")
    without_gradient = ("length",)
    sign = 1.0

    def inputs(self, p: SoftmaxParam) -> tuple[str, ...]:
        return ("data", "length") if p.use_length else ("data",)

    def infer_shape(self, p: SoftmaxParam, s: Shapes) -> None:
        """As data; length has the shape of data without the axis."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        axis = positive_axis(p.axis, len(data))
        if not 0 <= axis < max(len(data), 1) and (data or p.axis != -1):
            raise s.error(f"axis: expected −{len(data)} to {len(data) - 1}, got {p.axis}")
        if p.use_length:
            s.assign("length", data[:axis] + data[axis + 1 :])

    def infer_type(self, p: SoftmaxParam, t: Types) -> None:
        """As data unless dtype is given; length is an integer."""
        t.assign("output", p.dtype if p.dtype is not None else t.get("data"))
        if p.dtype is None:
            t.assign("data", t.get("output"))
        if p.use_length and t.get("length") is None:
            t.assign("length", "int32")

    def inplace(self, p: SoftmaxParam) -> tuple[tuple[int, int], ...]:
        """Row by row."""
        return ((0, 0),) if p.dtype is None and not p.use_length else ()

    def gradient(self, p: SoftmaxParam, g: GradientBuilder) -> Gradients:
        """In the type of data."""
        grads = g.backward()
        if p.dtype is not None:
            grads["data"] = g.op("_backward_Cast", (grads["data"], g.input("data")))[0]
        return grads

    def _values(self, x: Array, axis: int) -> Array:
        return softmax(self.sign * x, axis)

    def _jacobian(self, g: Array, y: Array, axis: int) -> Array:
        return y * (g - (g * y).sum(axis, keepdims=True))

    def reference(self, p: SoftmaxParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Along the axis; positions beyond a length are 0."""
        x = wide(inputs[0])
        x = x if x.dtype.kind == "f" else x.astype(np.float64)
        axis = positive_axis(p.axis, x.ndim)
        if p.temperature is not None:
            x = x / x.dtype.type(p.temperature) if p.temperature else np.full_like(x, np.nan)
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype)) if p.dtype else inputs[0].dtype
        if not p.use_length:
            return (self._values(x, axis).astype(dtype),)
        inside = _inside(x.shape, inputs[1], axis)
        far = np.finfo(x.dtype).min / 4 * self.sign
        y = self._values(np.where(inside, x, x.dtype.type(far)), axis)
        return (np.where(inside, y, 0).astype(dtype),)

    def backward(self, p: SoftmaxParam, out_grad: Array, output: Array, length: Array | None = None) -> Array:
        """The Jacobian applied to out_grad."""
        axis = positive_axis(p.axis, output.ndim)
        inside = None if length is None else _inside(output.shape, length, axis)
        g = out_grad if inside is None else np.where(inside, out_grad, 0)
        dx = self.sign * self._jacobian(g, output, axis)
        if inside is not None:
            dx = np.where(inside, dx, 0)
        if p.temperature is None:
            return dx
        return dx / dx.dtype.type(p.temperature) if p.temperature else np.full_like(dx, np.nan)

    def backward_inplace(self, p: SoftmaxParam) -> tuple[tuple[int, int], ...]:
        """Row by row."""
        return ((0, 0), (1, 0))

    def backward_gradient(self, p: SoftmaxParam, g: GradientBuilder) -> Gradients:
        """By out_grad, and through the output; not offered with lengths."""
        if p.use_length:
            return g.not_differentiable()
        head, out_grad, y = g.out_grad(), g.input("out_grad"), g.input("output")
        by_out_grad, by_output = self._second(_Composer(g, p.axis), head, out_grad, y)
        divisor = 1.0 if p.temperature is None else p.temperature
        factor = self.sign / divisor if divisor else copysign(inf, divisor * self.sign)
        scaled = [g.op("_mul_scalar", (entry,), scalar=factor)[0] for entry in (by_out_grad, by_output)]
        return dict(zip(("out_grad", "output"), scaled, strict=True))

    def _second(self, do: _Composer, head: Entry, out_grad: Entry, y: Entry) -> tuple[Entry, Entry]:
        """Of Σ head·(y·(g − Σ g·y)): y·(head − Σ head·y), and head·(g − Σ g·y) − g·Σ head·y."""
        heads, grads = do.sum(do.times(head, y)), do.sum(do.times(out_grad, y))
        by_output = do.minus(do.times(head, do.minus(out_grad, grads)), do.times(out_grad, heads))
        return do.times(y, do.minus(head, heads)), by_output


def _inside(shape: tuple[int, ...], length: Array, axis: int) -> Array:
    position = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return position < np.expand_dims(length, axis)


class _Composer(NamedTuple):
    """The operators that gradients of gradients are made of."""

    g: GradientBuilder
    axis: int

    def times(self, a: Entry, b: Entry) -> Entry:
        return self.g.op("broadcast_mul", (a, b))[0]

    def minus(self, a: Entry, b: Entry) -> Entry:
        return self.g.op("broadcast_sub", (a, b))[0]

    def sum(self, a: Entry) -> Entry:
        """Along the axis, which stays."""
        return self.g.op("sum", (a,), axis=self.axis, keepdims=True)[0]


class Softmax(_Softmax):
    """exp(x/T) / Σ exp(x/T) along an axis."""

    name = "softmax"


class Softmin(_Softmax):
    """softmax of −x."""

    name = "softmin"
    sign = -1.0


class LogSoftmax(_Softmax):
    """log(softmax(x)), computed without overflow."""

    name = "log_softmax"

    def _values(self, x: Array, axis: int) -> Array:
        if x.size == 0:
            return x
        shifted = x - x.max(axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def _jacobian(self, g: Array, y: Array, axis: int) -> Array:
        return g - np.exp(y) * g.sum(axis, keepdims=True)

    def _second(self, do: _Composer, head: Entry, out_grad: Entry, y: Entry) -> tuple[Entry, Entry]:
        """Of Σ head·(g − eʸ·Σ g): head − Σ head·eʸ, and −head·eʸ·Σ g."""
        shares = do.times(head, do.g.op("exp", (y,))[0])
        by_out_grad = do.minus(head, do.sum(shares))
        return by_out_grad, do.g.op("negative", (do.times(shares, do.sum(out_grad)),))[0]


class SoftmaxActivationParam(Params):
    """Over what."""

    mode: str = opt("instance", "over all of an example, or over channels", choices=("channel", "instance"))


class SoftmaxActivation(Operator[SoftmaxActivationParam]):
    """softmax over everything but the first axis, or (mode channel) over axis 1."""

    name = "SoftmaxActivation"
    floating_only = True

    def infer_shape(self, p: SoftmaxActivationParam, s: Shapes) -> None:
        """As data, which has an axis after the first."""
        super().infer_shape(p, s)
        data = s.get("data")
        if data is not None and len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")

    def reference(self, p: SoftmaxActivationParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """softmax of a reshaped view."""
        x = wide(inputs[0])
        view = x if p.mode == "channel" else x.reshape(x.shape[0], prod(x.shape[1:]))
        return (softmax(view, 1).reshape(x.shape).astype(inputs[0].dtype),)

    def backward(self, p: SoftmaxActivationParam, out_grad: Array, output: Array) -> Array:
        """The Jacobian applied to out_grad."""
        g, y = out_grad, output
        if p.mode == "instance":
            g, y = (a.reshape(output.shape[0], prod(output.shape[1:])) for a in (g, y))
        dx = y * (g - (g * y).sum(1, keepdims=True))
        return dx.reshape(output.shape)
