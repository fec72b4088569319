# SPDX-License-Identifier: Apache-2.0
"""Extrema over axes: max, min."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    ReferenceContext,
    Shapes,
)
from mx_operators.nn.base import wide
from mx_operators.reduce.base import ReduceParam, Reduction, spread


class _Extremum(Reduction):
    def gradient(self, p: ReduceParam, g: GradientBuilder) -> Gradients:
        entries = (g.out_grad(), g.input("data"), g.output("output"))
        return {"data": g.op("_backward_extremum", entries, params=p)[0]}


class Max(_Extremum):
    """Largest element over axes; of nothing the smallest number."""

    name = "max"
    aliases = ("max_axis",)

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return x.max(axes, keepdims=True, initial=_limit(x.dtype, "min"))

    def backward_operator(self) -> Operator[ReduceParam]:
        return BackwardExtremum()


class Min(_Extremum):
    """Smallest element over axes; of nothing the largest number."""

    name = "min"
    aliases = ("min_axis",)

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return x.min(axes, keepdims=True, initial=_limit(x.dtype, "max"))


def _limit(dtype: np.dtype[Any], side: str) -> Any:
    if dtype.kind == "f":
        return -np.inf if side == "min" else np.inf
    return side == "max" if dtype.kind == "b" else getattr(np.iinfo(dtype), side)


class BackwardExtremum(Operator[ReduceParam]):
    """Gradient of max and of min: out_grad wherever data equals the extremum."""

    name = "_backward_extremum"
    arguments = ("out_grad", "data", "output")
    results = ("data_grad",)

    def infer_shape(self, p: ReduceParam, s: Shapes) -> None:
        s.unify(["data", "data_grad"])

    def gradient(self, p: ReduceParam, g: GradientBuilder) -> Gradients:
        return g.not_differentiable()

    def reference(self, p: ReduceParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        g, x, y = (wide(a) for a in inputs)
        return (np.where(x == spread(p, y, x.shape), spread(p, g, x.shape), 0).astype(inputs[0].dtype),)
