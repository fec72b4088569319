# SPDX-License-Identifier: Apache-2.0
"""Shared code of reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, opt
from mx_operators.nn.base import wide


class ReduceParam(Params):
    """Which axes, and whether they stay."""

    axis: Shape | None = opt(None, "axes to reduce; None or (): all")
    keepdims: bool = opt(False, "keep reduced axes with extent 1")
    exclude: bool = opt(False, "reduce all axes but the given ones")


class Axes(Protocol):
    """Parameters that say which axes are reduced."""

    @property
    def axis(self) -> Shape | None:
        """None or (): all."""


def reduced_axes(p: Axes, rank: int, s: Shapes | None = None) -> tuple[int, ...]:
    """The axes that are reduced, sorted, from the front."""
    if not p.axis:
        return tuple(range(rank))
    if s is not None and any(not -rank <= a < rank for a in p.axis):
        raise s.error(f"axis: expected −{rank} to {rank - 1}, got {p.axis}")
    named = sorted({a % rank for a in p.axis})
    if s is not None and len(named) != len(p.axis):
        raise s.error(f"axis: {p.axis} names an axis twice")
    if isinstance(p, ReduceParam) and p.exclude:
        return tuple(a for a in range(rank) if a not in named)
    return tuple(named)


def kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Reduced axes with extent 1."""
    return tuple([1 if a in axes else e for a, e in enumerate(shape)])


def dropped_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Reduced axes left out; a full reduction gives (1,)."""
    return tuple([e for a, e in enumerate(shape) if a not in axes]) or (1,)


class Reduction(Operator[ReduceParam]):
    """A reduction of data over axes."""

    def infer_shape(self, p: ReduceParam, s: Shapes) -> None:
        """Reduced axes dropped, or 1; a full reduction gives (1,)."""
        data = s.get("data")
        if data is not None:
            axes = reduced_axes(p, len(data), s)
            s.assign("output", kept_shape(data, axes) if p.keepdims else dropped_shape(data, axes))

    def compute(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The reduction, axes kept."""
        raise NotImplementedError

    def reference(self, p: ReduceParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = inputs[0]
        axes = reduced_axes(p, x.ndim)
        y = self.compute(wide(x), axes)
        return ((y if p.keepdims else y.reshape(dropped_shape(x.shape, axes))).astype(x.dtype),)


def spread(p: Axes, reduced: Array, shape: tuple[int, ...]) -> Array:
    """The result of a reduction of `shape` with the reduced axes back, of extent 1."""
    return reduced.reshape(kept_shape(shape, reduced_axes(p, len(shape))))
