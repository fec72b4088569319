# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes: sum, mean, prod, nansum, nanprod, max, min."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


@param
class ReduceParam:
    """Which axes, and whether they stay."""

    axis: Shape | None = opt(None, "axes to reduce; None or (): all")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")
    exclude: bool = opt(False, "reduce all axes but the given ones")


def reduced_axes(p: Any, rank: int, s: Any = None) -> tuple[int, ...]:
    """The axes that are reduced, sorted, from the front."""
    if not p.axis:
        return tuple(range(rank))
    if s is not None and any(not -rank <= a < rank for a in p.axis):
        raise s.error(f"axis: expected −{rank} to {rank - 1}, got {p.axis}")
    named = sorted({a % rank for a in p.axis})
    if s is not None and len(named) != len(p.axis):
        raise s.error(f"axis: {p.axis} names an axis twice")
    if getattr(p, "exclude", False):
        return tuple(a for a in range(rank) if a not in named)
    return tuple(named)


def kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Reduced axes with extent 1."""
    return tuple(1 if a in axes else e for a, e in enumerate(shape))


class Reduction(OperatorProperty):
    """Shared declaration."""

    Param = ReduceParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        data = s.get("data")
        if data is None:
            return
        axes = reduced_axes(p, len(data), s)
        if p.keepdims:
            s.assign("output", kept_shape(data, axes))
        else:
            s.assign("output", tuple(e for a, e in enumerate(data) if a not in axes) or (1,))

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """The reduction, axes kept."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """With NumPy."""
        x = inputs[0]
        axes = reduced_axes(p, x.ndim)
        y = self.compute(wide(x), axes)
        if not p.keepdims:
            y = y.reshape(tuple(e for a, e in enumerate(x.shape) if a not in axes) or (1,))
        return (y.astype(x.dtype),)


class _BackwardReduction(OperatorProperty):
    Param = ReduceParam
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def spread(self, p: Any, g: Any, data: Any) -> Any:
        """out_grad with the reduced axes back, of extent 1."""
        return g.reshape(kept_shape(data.shape, reduced_axes(p, data.ndim)))


class BackwardSum(_BackwardReduction):
    """out_grad repeated over the reduced axes; only the shape of data is read."""

    name = "_backward_sum"
    arguments = ("out_grad", "data")
    shape_only_inputs = frozenset((1,))

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad."""
        t.unify(["out_grad", "data", "data_grad"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Summed again."""
        return (g.op("sum", (g.out_grad(),), params=p)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A broadcast."""
        g, data = inputs
        return (np.broadcast_to(self.spread(p, g, data), data.shape).copy(),)


class BackwardMean(BackwardSum):
    """out_grad over the number of elements, repeated."""

    name = "_backward_mean"

    def gradient(self, p: Any, g: Any) -> Any:
        """Averaged again."""
        return (g.op("mean", (g.out_grad(),), params=p)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A broadcast."""
        g, data = inputs
        count = max(data.size // max(g.size, 1), 1)
        return (np.broadcast_to(self.spread(p, g, data) / count, data.shape).astype(g.dtype),)


class Sum(Reduction):
    """Σ over axes."""

    name = "sum"
    aliases = ("sum_axis",)

    def gradient(self, p: Any, g: Any) -> Any:
        """Repeated."""
        return g.op("_backward_sum", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSum(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's sum."""
        return x.sum(axes, keepdims=True, dtype=x.dtype)


class Mean(Reduction):
    """Average over axes."""

    name = "mean"

    def gradient(self, p: Any, g: Any) -> Any:
        """Divided and repeated."""
        return g.op("_backward_mean", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardMean(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Sum over count, NaN of nothing; of integers truncated, 0 of nothing."""
        count = prod(x.shape[a] for a in axes)
        total = x.sum(axes, keepdims=True, dtype=x.dtype)
        if x.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                return total / count
        return np.sign(total) * (abs(total) // max(count, 1))


class _FromOutput(_BackwardReduction):
    """Backward of a reduction that reads data and output."""

    arguments = ("out_grad", "data", "output")

    def share(self, g: Any, x: Any, y: Any) -> Any:
        """Each element's part of the (spread) gradient."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Elementwise, with the reduced axes spread out."""
        g, x, y = (wide(a) for a in inputs)
        with np.errstate(all="ignore"):
            grad = self.share(self.spread(p, g, x), x, self.spread(p, y, x))
        return (grad.astype(inputs[0].dtype),)


class BackwardExtremum(_FromOutput):
    """out_grad wherever data equals the extremum."""

    name = "_backward_extremum"

    def share(self, g: Any, x: Any, y: Any) -> Any:
        """A comparison."""
        return np.where(x == y, g, 0)


class BackwardProd(_FromOutput):
    """out_grad · output / data."""

    name = "_backward_prod"

    def share(self, g: Any, x: Any, y: Any) -> Any:
        """A quotient."""
        return g * (y / x)


class BackwardNanSum(_FromOutput):
    """out_grad wherever data is a number."""

    name = "_backward_nansum"

    def share(self, g: Any, x: Any, y: Any) -> Any:
        """A mask."""
        return np.where(np.isnan(x), 0, g)


class BackwardNanProd(_FromOutput):
    """out_grad · output / data wherever data is a number."""

    name = "_backward_nanprod"

    def share(self, g: Any, x: Any, y: Any) -> Any:
        """A masked quotient."""
        return np.where(np.isnan(x), 0, g * (y / x))


class _WithOutput(Reduction):
    backward: type[OperatorProperty]

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs data and output."""
        return g.op(self.backward.name, (g.out_grad(), g.input(0), g.output(0)), params=p)


class Max(_WithOutput):
    """Largest element over axes."""

    name = "max"
    aliases = ("max_axis",)
    backward = BackwardExtremum

    def companions(self) -> tuple[OperatorProperty, ...]:
        """The backward operator of max and min."""
        return (BackwardExtremum(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's max; of nothing the smallest number."""
        return x.max(axes, keepdims=True, initial=_limit(x.dtype, "min"))


class Min(_WithOutput):
    """Smallest element over axes."""

    name = "min"
    aliases = ("min_axis",)
    backward = BackwardExtremum

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's min; of nothing the largest number."""
        return x.min(axes, keepdims=True, initial=_limit(x.dtype, "max"))


def _limit(dtype: Any, side: str) -> Any:
    if dtype.kind == "f":
        return -np.inf if side == "min" else np.inf
    return side == "max" if dtype.kind == "b" else getattr(np.iinfo(dtype), side)


class Prod(_WithOutput):
    """Product over axes."""

    name = "prod"
    backward = BackwardProd

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardProd(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's prod."""
        return x.prod(axes, keepdims=True, dtype=x.dtype)


class NanSum(_WithOutput):
    """Σ over axes, NaN as 0."""

    name = "nansum"
    backward = BackwardNanSum

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardNanSum(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's nansum."""
        return np.nansum(x, axes, keepdims=True, dtype=x.dtype)


class NanProd(_WithOutput):
    """Product over axes, NaN as 1."""

    name = "nanprod"
    backward = BackwardNanProd

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardNanProd(),)

    def compute(self, x: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's nanprod."""
        return np.nanprod(x, axes, keepdims=True, dtype=x.dtype)


OPERATORS: tuple[type[OperatorProperty], ...] = (Sum, Mean, Prod, NanSum, NanProd, Max, Min)
