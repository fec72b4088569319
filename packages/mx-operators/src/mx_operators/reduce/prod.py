# SPDX-License-Identifier: Apache-2.0
"""Products over axes: prod, nanprod."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array
from mx_operators.reduce.base import ReduceParam, Reduction, spread


class Prod(Reduction):
    """Product over axes."""

    name = "prod"

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return x.prod(axes, keepdims=True, dtype=x.dtype)

    def backward(self, p: ReduceParam, out_grad: Array, data: Array, output: Array) -> Array:
        with np.errstate(all="ignore"):
            return spread(p, out_grad, data.shape) * (spread(p, output, data.shape) / data)


class NanProd(Prod):
    """Product over axes, NaN as 1."""

    name = "nanprod"

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.nanprod(x, axes, keepdims=True, dtype=x.dtype)

    def backward(self, p: ReduceParam, out_grad: Array, data: Array, output: Array) -> Array:
        return np.where(np.isnan(data), 0, super().backward(p, out_grad, data, output))
