# SPDX-License-Identifier: Apache-2.0
"""Norms: norm, L2Normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.reduce.sums import kept_shape, reduced_axes


@param
class NormParam:
    """Order, axes, type."""

    ord: int = opt(2, "1: sum of magnitudes; 2: root of the sum of squares", choices=(1, 2))
    axis: Shape | None = opt(None, "axes to reduce; None: all")
    out_dtype: str | None = opt(None, "type of the result")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")


class Norm(OperatorProperty):
    """L1 or L2 norm over axes."""

    name = "norm"
    Param = NormParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        data = s.get("data")
        if data is None:
            return
        axes = reduced_axes(p, len(data), s)
        dropped = tuple(e for a, e in enumerate(data) if a not in axes) or (1,)
        s.assign("output", kept_shape(data, axes) if p.keepdims else dropped)

    def infer_type(self, p: Any, t: Any) -> None:
        """As data unless out_dtype is given."""
        t.assign("output", p.out_dtype if p.out_dtype else t.get("data"))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs data and output."""
        return g.op("_backward_norm", (g.out_grad(), g.input(0), g.output(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardNorm(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A reduction."""
        x = wide(inputs[0])
        axes = reduced_axes(p, x.ndim)
        y = np.abs(x).sum(axes) if p.ord == 1 else np.sqrt(np.square(x).sum(axes))
        kept = kept_shape(x.shape, axes)
        shape = kept if p.keepdims else tuple(e for a, e in enumerate(x.shape) if a not in axes) or (1,)
        dtype = dtypes.numpy_dtype(dtypes.code(p.out_dtype)) if p.out_dtype else inputs[0].dtype
        return (np.asarray(y).reshape(shape).astype(dtype),)


class BackwardNorm(OperatorProperty):
    """Gradient of norm; 0 where the norm is 0."""

    name = "_backward_norm"
    Param = NormParam
    arguments = ("out_grad", "data", "output")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As data."""
        t.unify(["data", "data_grad"])
        t.unify(["out_grad", "output"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """sign(x), or x over the norm."""
        g, x, y = (wide(a) for a in inputs)
        kept = kept_shape(x.shape, reduced_axes(p, x.ndim))
        g, y = g.reshape(kept), y.reshape(kept)
        factor = np.sign(x) if p.ord == 1 else x / np.where(y == 0, 1, y)
        return ((g * factor).astype(inputs[1].dtype),)


@param
class L2NormalizationParam:
    """Over what, and a constant."""

    eps: float = opt(1e-10, "added to the sum of squares", lower=0.0)
    mode: str = opt("instance", "over what", choices=("channel", "instance", "spatial"))


class L2Normalization(OperatorProperty):
    """x / √(Σx² + eps) over an example, over channels (axis 1), or over positions (axes 2…)."""

    name = "L2Normalization"
    Param = L2NormalizationParam
    results = ("output", "norm")

    def num_visible_outputs(self, p: Any) -> int:
        """The norm is hidden."""
        return 1

    def axes(self, p: Any, rank: int) -> tuple[int, ...]:
        """What is summed over."""
        table = {"instance": range(1, rank), "channel": (1,), "spatial": range(2, rank)}
        return tuple(table[p.mode])

    def infer_shape(self, p: Any, s: Any) -> None:
        """The norm has extent 1 where it was summed."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            if len(data) < (1 if p.mode == "instance" else 3):
                raise s.error(f"data: too few dimensions for mode {p.mode!r}: {data}")
            s.assign("norm", kept_shape(data, self.axes(p, len(data))))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs the outputs."""
        return g.op("_backward_L2Normalization", (g.out_grad(), g.output(0), g.output(1)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardL2Normalization(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A quotient."""
        x = wide(inputs[0])
        norm = np.sqrt(np.square(x).sum(self.axes(p, x.ndim), keepdims=True) + p.eps)
        return tuple(a.astype(inputs[0].dtype) for a in (x / norm, norm))


class BackwardL2Normalization(OperatorProperty):
    """Gradient of L2Normalization."""

    name = "_backward_L2Normalization"
    Param = L2NormalizationParam
    arguments = ("out_grad", "output", "norm")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the output."""
        s.unify(["output", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The component of out_grad that is orthogonal to the output, over the norm."""
        g, y, norm = (wide(a) for a in inputs)
        axes = L2Normalization().axes(p, y.ndim)
        return (((g - y * (g * y).sum(axes, keepdims=True)) / norm).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Norm, L2Normalization)
