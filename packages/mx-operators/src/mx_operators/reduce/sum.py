# SPDX-License-Identifier: Apache-2.0
"""Sums and means over axes: sum, mean, nansum."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core.operator import Array, ShapeOnly
from mx_operators.reduce.base import ReduceParam, Reduction, spread


class Sum(Reduction):
    """Σ over axes."""

    name = "sum"
    aliases = ("sum_axis",)
    linear = True

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return x.sum(axes, keepdims=True, dtype=x.dtype)

    def backward(self, p: ReduceParam, out_grad: Array, data: ShapeOnly) -> Array:
        return np.broadcast_to(spread(p, out_grad, data.shape), data.shape).copy()


class Mean(Reduction):
    """Average over axes."""

    name = "mean"
    linear = True

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Sum over count, NaN of nothing; of integers truncated, 0 of nothing; of truth values whether any is true."""
        count = prod(x.shape[a] for a in axes)
        if x.dtype.kind == "b":
            return np.asarray(x.any(axes, keepdims=True))
        total = x.sum(axes, keepdims=True, dtype=x.dtype)
        if x.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                return total / count
        exact = total.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
        return np.sign(exact) * (abs(exact) // exact.dtype.type(max(count, 1)))

    def backward(self, p: ReduceParam, out_grad: Array, data: ShapeOnly) -> Array:
        count = max(data.size // max(out_grad.size, 1), 1)
        return np.broadcast_to(spread(p, out_grad, data.shape) / count, data.shape)


class NanSum(Reduction):
    """Σ over axes, NaN as 0."""

    name = "nansum"

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.nansum(x, axes, keepdims=True, dtype=x.dtype)

    def backward(self, p: ReduceParam, out_grad: Array, data: Array, output: Array) -> Array:
        return np.where(np.isnan(data), 0, spread(p, out_grad, data.shape))
