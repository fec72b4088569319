# SPDX-License-Identifier: Apache-2.0
"""Mean and variance in one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.reduce.sums import kept_shape, reduced_axes


@param
class MomentsParam:
    """Axes."""

    axes: Shape | None = opt(None, "axes to reduce, at least one")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")

    @property
    def axis(self) -> Any:
        """`axes` under the name that reductions have."""
        return self.axes


def _shape(p: Any, data: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    if p.keepdims:
        return kept_shape(data, axes)
    return tuple(e for a, e in enumerate(data) if a not in axes) or (1,)


class Moments(OperatorProperty):
    """Mean Σx/n and variance Σ(x − mean)²/n over axes."""

    name = "moments"
    Param = MomentsParam
    results = ("output0", "output1")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        if not p.axes:
            raise s.error(f"axes: expected at least one axis, got {p.axes}")
        data = s.get("data")
        if data is not None:
            for name in self.results:
                s.assign(name, _shape(p, data, reduced_axes(p, len(data), s)))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs data and mean."""
        entries = (g.out_grad(0), g.out_grad(1), g.input(0), g.output(0))
        return g.op("_backward_moments", entries, params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardMoments(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Two passes."""
        x = wide(inputs[0])
        axes = reduced_axes(p, x.ndim)
        n = max(prod(x.shape[a] for a in axes), 1)
        mean = x.sum(axes, keepdims=True, dtype=np.float64) / n
        var = np.square(x - mean).sum(axes, keepdims=True, dtype=np.float64) / n
        return tuple(y.reshape(_shape(p, x.shape, axes)).astype(inputs[0].dtype) for y in (mean, var))


class BackwardMoments(OperatorProperty):
    """Gradient of moments: (mean_grad + 2·(x − mean)·var_grad)/n."""

    name = "_backward_moments"
    Param = MomentsParam
    arguments = ("mean_grad", "var_grad", "data", "mean")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data; the others as the forward operator gives them."""
        s.unify(["data", "data_grad"])
        if not p.axes:
            raise s.error(f"axes: expected at least one axis, got {p.axes}")
        data = s.get("data")
        if data is not None:
            for name in ("mean_grad", "var_grad", "mean"):
                s.assign(name, _shape(p, data, reduced_axes(p, len(data), s)))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Spread over the reduced axes."""
        x = wide(inputs[2])
        axes = reduced_axes(p, x.ndim)
        n = max(prod(x.shape[a] for a in axes), 1)
        g_mean, g_var, mean = (wide(y).reshape(kept_shape(x.shape, axes)) for y in (*inputs[:2], inputs[3]))
        return (((g_mean + 2 * (x - mean) * g_var) / n).astype(inputs[2].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Moments,)
