# SPDX-License-Identifier: Apache-2.0
"""Arrays made from nothing or from the shape of another."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import ArgumentError, ShapeError
from mx_core.expression import Expression
from mx_core.operator import (
    Array,
    Arrays,
    Elementwise,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    Types,
    opt,
    required,
)

#: numbers made at a time: few enough to stay in a cache
PIECE = 1 << 16
#: more than an address can tell apart
_MOST_NUMBERS = 1 << 56


class PlaceParam(Params):
    """Place, type."""

    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")


class FillParam(PlaceParam, leading=True):
    """Shape, place, type."""

    shape: Shape = opt((), "shape of the result")


class FullParam(FillParam):
    """Shape, place, type, value."""

    value: float = required("the value", runtime=True)


class RangeParam(PlaceParam, leading=True):
    """An arithmetic progression."""

    start: float = required("first value")
    stop: float | None = opt(None, "end, not included")
    step: float = opt(1.0, "difference")
    repeat: int = opt(1, "how often each value appears", lower=1)
    infer_range: bool = opt(False, "take the length from the output")


class LinspaceParam(PlaceParam, leading=True):
    """Evenly spaced values."""

    start: float = required("first value")
    stop: float | None = opt(None, "last value")
    step: float = opt(1.0, "accepted for compatibility")
    repeat: int = opt(1, "accepted for compatibility", lower=1)
    infer_range: bool = opt(False, "accepted for compatibility")
    num: int = opt(50, "how many", lower=0)
    endpoint: bool = opt(True, "stop is the last value")


class EyeParam(PlaceParam, leading=True):
    """A diagonal of ones."""

    N: int = required("rows", lower=0)
    M: int = opt(0, "columns; 0 is N", lower=0)
    k: int = opt(0, "which diagonal; positive is above the main one")


F = TypeVar("F", bound=PlaceParam)


class _Fill(Operator[F]):
    arguments = ()
    differentiable = False

    def shape(self, p: F) -> tuple[int, ...] | None:
        """Shape of the result; None where the output's use says it."""
        raise NotImplementedError

    def infer_shape(self, p: F, s: Shapes) -> None:
        """From the parameters; 0 in `shape` may be filled in by the output's use."""
        s.assign("output", self.shape(p))

    def infer_type(self, p: F, t: Types) -> None:
        t.assign("output", p.dtype)

    def values(self, p: F) -> Array:
        """The result, in any type."""
        raise NotImplementedError

    def reference(self, p: F, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        with np.errstate(over="ignore", invalid="ignore"):
            return (X.convert(np.asarray(self.values(p)), dtypes.numpy_dtype(dtypes.code(p.dtype))),)


class Zeros(_Fill[FillParam]):
    """Zeros."""

    name = "_zeros"

    def shape(self, p: FillParam) -> tuple[int, ...]:
        return p.shape

    def values(self, p: FillParam) -> Array:
        return np.zeros(p.shape)


class Ones(_Fill[FillParam]):
    """Ones."""

    name = "_ones"

    def shape(self, p: FillParam) -> tuple[int, ...]:
        return p.shape

    def values(self, p: FillParam) -> Array:
        return np.ones(p.shape)


class Full(_Fill[FullParam]):
    """One value everywhere."""

    name = "_full"

    def shape(self, p: FullParam) -> tuple[int, ...]:
        return p.shape

    def values(self, p: FullParam) -> Array:
        return np.full(p.shape, p.value)


class Arange(_Fill[RangeParam]):
    """start, start + step, … up to stop; each `repeat` times."""

    name = "_arange"

    def _bounds(self, p: RangeParam) -> tuple[float, float]:
        return (0.0, p.start) if p.stop is None else (p.start, p.stop)

    def shape(self, p: RangeParam) -> tuple[int, ...] | None:
        """Length from the bounds."""
        if p.infer_range and p.stop is None:
            return None
        start, stop = self._bounds(p)
        if p.step == 0:
            raise ArgumentError("[_arange] step: expected non-zero, got 0")
        length = (stop - start) / p.step
        if not math.isfinite(length):
            raise ArgumentError(f"[_arange] there are not finitely many from {start} to {stop} by {p.step}")
        total = max(math.ceil(length), 0) * p.repeat
        if total > _MOST_NUMBERS:
            raise ShapeError(
                f"[_arange] from {start:g} to {stop:g} by {p.step:g} there are {total:g} numbers, which no memory has"
            )
        return (total,)

    def reference(self, p: RangeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """start + i·step; piece by piece, since numbers in float64 may need eight times the result."""
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype))
        total = (self.shape(p) or (0,))[0]
        values = np.empty((total // p.repeat, p.repeat if total else 0), dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(values), PIECE):
                index = np.arange(first, min(first + PIECE, len(values)))
                piece = X.convert(self._bounds(p)[0] + index * p.step, dtype)
                values[first : first + PIECE] = piece[:, None]
        return (values.reshape(-1),)


class Linspace(_Fill[LinspaceParam]):
    """`num` values from start to stop."""

    name = "_linspace"

    def shape(self, p: LinspaceParam) -> tuple[int, ...]:
        return (p.num,)

    def values(self, p: LinspaceParam) -> Array:
        stop = p.start if p.stop is None else p.stop
        return np.linspace(p.start, stop, p.num, endpoint=p.endpoint)


class Eye(_Fill[EyeParam]):
    """Ones on a diagonal, zeros elsewhere."""

    name = "_eye"

    def shape(self, p: EyeParam) -> tuple[int, ...]:
        return (p.N, p.M or p.N)

    def values(self, p: EyeParam) -> Array:
        return np.eye(p.N, p.M or p.N, p.k)


class _Like(Elementwise):
    """A constant of the shape and type of the input, whose values are not read."""

    shape_only = ("data",)
    differentiable = False
    value: ClassVar[float]

    def expression(self, p: Params) -> Expression:
        return X.trace(lambda data: self.value, 1)

    def inplace(self, p: Params) -> tuple[tuple[int, int], ...]:
        """The input need not exist any more."""
        return ()


class ZerosLike(_Like):
    """Zeros of the shape and type of the input."""

    name = "zeros_like"
    value = 0.0


class OnesLike(_Like):
    """Ones of the shape and type of the input."""

    name = "ones_like"
    value = 1.0
