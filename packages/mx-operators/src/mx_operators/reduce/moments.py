# SPDX-License-Identifier: Apache-2.0
"""Mean and variance in one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.reduce.base import dropped_shape, kept_shape, reduced_axes, spread


class MomentsParam(Params):
    """Axes."""

    axes: Shape | None = opt(None, "axes to reduce, at least one")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")

    @property
    def axis(self) -> Shape | None:
        """`axes` under the name that reductions have."""
        return self.axes


def _shape(p: MomentsParam, data: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return kept_shape(data, axes) if p.keepdims else dropped_shape(data, axes)


class Moments(Operator[MomentsParam]):
    """Mean Σx/n and variance Σ(x − mean)²/n over axes."""

    name = "moments"
    results = ("output0", "output1")

    def infer_shape(self, p: MomentsParam, s: Shapes) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        if not p.axes:
            raise s.error(f"axes: expected at least one axis, got {p.axes}")
        data = s.get("data")
        if data is not None:
            for name in self.results:
                s.assign(name, _shape(p, data, reduced_axes(p, len(data), s)))

    def reference(self, p: MomentsParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Two passes."""
        x = wide(inputs[0])
        axes = reduced_axes(p, x.ndim)
        n = max(prod(x.shape[a] for a in axes), 1)
        mean = x.sum(axes, keepdims=True, dtype=np.float64) / n
        var = np.square(x - mean).sum(axes, keepdims=True, dtype=np.float64) / n
        return tuple(y.reshape(_shape(p, x.shape, axes)).astype(inputs[0].dtype) for y in (mean, var))

    def backward(
        self, p: MomentsParam, output0_grad: Array, output1_grad: Array, data: Array, output0: Array
    ) -> Array:
        """(mean_grad + 2·(x − mean)·var_grad)/n."""
        n = max(prod(data.shape[a] for a in reduced_axes(p, data.ndim)), 1)
        mean_grad, var_grad, mean = (spread(p, y, data.shape) for y in (output0_grad, output1_grad, output0))
        apart = data ^ mean if data.dtype.kind == "b" else data - mean  # NumPy subtracts no truth values
        return (mean_grad + 2 * apart * var_grad) / n
