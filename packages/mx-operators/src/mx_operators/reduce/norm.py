# SPDX-License-Identifier: Apache-2.0
"""Norms: norm, L2Normalization."""

from __future__ import annotations

import numpy as np

from mx_core import dtypes
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, Types, opt
from mx_operators.nn.base import wide
from mx_operators.reduce.base import dropped_shape, kept_shape, reduced_axes, spread


class NormParam(Params):
    """Order, axes, type."""

    ord: int = opt(2, "1: sum of magnitudes; 2: root of the sum of squares", choices=(1, 2))
    axis: Shape | None = opt(None, "axes to reduce; None: all")
    out_dtype: str | None = opt(None, "type of the result")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")


class Norm(Operator[NormParam]):
    """L1 or L2 norm over axes."""

    name = "norm"

    def infer_shape(self, p: NormParam, s: Shapes) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        data = s.get("data")
        if data is None:
            return
        axes = reduced_axes(p, len(data), s)
        dropped = dropped_shape(data, axes)
        s.assign("output", kept_shape(data, axes) if p.keepdims else dropped)

    def infer_type(self, p: NormParam, t: Types) -> None:
        """As data unless out_dtype is given."""
        t.assign("output", p.out_dtype if p.out_dtype else t.get("data"))

    def reference(self, p: NormParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        axes = reduced_axes(p, x.ndim)
        if p.ord == 2 and x.dtype.kind in "iu":
            x = x.astype(np.float64)  # squares would wrap around
        y = np.abs(x).sum(axes) if p.ord == 1 else np.sqrt(np.square(x).sum(axes))
        shape = kept_shape(x.shape, axes) if p.keepdims else dropped_shape(x.shape, axes)
        dtype = dtypes.numpy_dtype(dtypes.code(p.out_dtype)) if p.out_dtype else inputs[0].dtype
        return (np.asarray(y).reshape(shape).astype(dtype),)

    def backward(self, p: NormParam, out_grad: Array, data: Array, output: Array) -> Array:
        """sign(x), or x over the norm; 0 where the norm is 0."""
        g, y = spread(p, out_grad, data.shape), spread(p, output, data.shape)
        if data.dtype.kind == "b":  # signs and quotients of truth values are themselves
            return (g != 0) & data
        return g * (np.sign(data) if p.ord == 1 else data / np.where(y == 0, 1, y))


class L2NormalizationParam(Params):
    """Over what, and a constant."""

    eps: float = opt(1e-10, "added to the sum of squares", lower=0.0)
    mode: str = opt("instance", "over what", choices=("channel", "instance", "spatial"))


class L2Normalization(Operator[L2NormalizationParam]):
    """x / √(Σx² + eps) over an example, over channels (axis 1), or over positions (axes 2…)."""

    name = "L2Normalization"
    results = ("output", "norm")
    hidden = ("norm",)

    def axes(self, p: L2NormalizationParam, rank: int) -> tuple[int, ...]:
        """What is summed over."""
        table = {"instance": range(1, rank), "channel": (1,), "spatial": range(2, rank)}
        return tuple(table[p.mode])

    def infer_shape(self, p: L2NormalizationParam, s: Shapes) -> None:
        """The norm has extent 1 where it was summed."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            if len(data) < (1 if p.mode == "instance" else 3):
                raise s.error(f"data: too few dimensions for mode {p.mode!r}: {data}")
            s.assign("norm", kept_shape(data, self.axes(p, len(data))))

    def reference(self, p: L2NormalizationParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        norm = np.sqrt(np.square(x).sum(self.axes(p, x.ndim), keepdims=True) + p.eps)
        return tuple(a.astype(inputs[0].dtype) for a in (x / norm, norm))

    def backward(self, p: L2NormalizationParam, out_grad: Array, output: Array, norm: Array) -> Array:
        """The component of out_grad that is orthogonal to the output, over the norm."""
        along = (out_grad * output).sum(self.axes(p, output.ndim), keepdims=True)
        return (out_grad - output * along) / norm
