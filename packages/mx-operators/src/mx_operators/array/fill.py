# SPDX-License-Identifier: Apache-2.0
"""Arrays made from nothing or from the shape of another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import ArgumentError
from mx_core.expression import Expression
from mx_core.operator import Elementwise, OperatorProperty, Params, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext

#: numbers made at a time: few enough to stay in a cache
PIECE = 1 << 16


@param
class FillParam:
    """Shape, type, place."""

    shape: Shape = opt((), "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")


@param
class FullParam:
    """Shape, type, place, value."""

    shape: Shape = opt((), "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")
    value: float = required("the value", runtime=True)


@param
class RangeParam:
    """An arithmetic progression."""

    start: float = required("first value")
    stop: float | None = opt(None, "end, not included")
    step: float = opt(1.0, "difference")
    repeat: int = opt(1, "how often each value appears", lower=1)
    infer_range: bool = opt(False, "take the length from the output")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")


@param
class LinspaceParam:
    """Evenly spaced values."""

    start: float = required("first value")
    stop: float | None = opt(None, "last value")
    step: float = opt(1.0, "accepted for compatibility")
    repeat: int = opt(1, "accepted for compatibility", lower=1)
    infer_range: bool = opt(False, "accepted for compatibility")
    num: int = opt(50, "how many", lower=0)
    endpoint: bool = opt(True, "stop is the last value")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")


@param
class EyeParam:
    """A diagonal of ones."""

    N: int = required("rows", lower=0)
    M: int = opt(0, "columns; 0 is N", lower=0)
    k: int = opt(0, "which diagonal; positive is above the main one")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str = opt("float32", "type of the result")


class _Fill(OperatorProperty):
    arguments = ()

    def shape(self, p: Any) -> tuple[int, ...] | None:
        """Shape of the result."""
        return tuple(p.shape)

    def infer_shape(self, p: Any, s: Any) -> None:
        """From the parameters; 0 in `shape` may be filled in by the output's use."""
        s.assign("output", self.shape(p))

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameters."""
        t.assign("output", p.dtype)

    def values(self, p: Any) -> Any:
        """The result, in any type."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The values, converted."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (X.convert(np.asarray(self.values(p)), dtypes.numpy_dtype(dtypes.code(p.dtype))),)


class Zeros(_Fill):
    """Zeros."""

    name = "_zeros"
    Param = FillParam

    def values(self, p: Any) -> Any:
        """0."""
        return np.zeros(p.shape)


class Ones(_Fill):
    """Ones."""

    name = "_ones"
    Param = FillParam

    def values(self, p: Any) -> Any:
        """1."""
        return np.ones(p.shape)


class Full(_Fill):
    """One value everywhere."""

    name = "_full"
    Param = FullParam

    def values(self, p: Any) -> Any:
        """The value."""
        return np.full(p.shape, p.value)


class Arange(_Fill):
    """start, start + step, … up to stop; each `repeat` times."""

    name = "_arange"
    Param = RangeParam

    def _bounds(self, p: Any) -> tuple[float, float]:
        return (0.0, p.start) if p.stop is None else (p.start, p.stop)

    def shape(self, p: Any) -> tuple[int, ...] | None:
        """Length from the bounds."""
        if p.infer_range and p.stop is None:
            return None
        start, stop = self._bounds(p)
        if p.step == 0:
            raise ArgumentError("[_arange] step: expected non-zero, got 0")
        length = (stop - start) / p.step
        if not math.isfinite(length):
            raise ArgumentError(f"[_arange] there are not finitely many from {start} to {stop} by {p.step}")
        return (max(math.ceil(length), 0) * p.repeat,)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
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


class Linspace(_Fill):
    """`num` values from start to stop."""

    name = "_linspace"
    Param = LinspaceParam

    def shape(self, p: Any) -> tuple[int, ...]:
        """num."""
        return (p.num,)

    def values(self, p: Any) -> Any:
        """Evenly spaced."""
        stop = p.start if p.stop is None else p.stop
        return np.linspace(p.start, stop, p.num, endpoint=p.endpoint)


class Eye(_Fill):
    """Ones on a diagonal, zeros elsewhere."""

    name = "_eye"
    Param = EyeParam

    def shape(self, p: Any) -> tuple[int, ...]:
        """(N, M)."""
        return (p.N, p.M or p.N)

    def values(self, p: Any) -> Any:
        """A shifted identity."""
        return np.eye(p.N, p.M or p.N, p.k)


class _Like(Elementwise):
    """A constant of the shape and type of the input, whose values are not read."""

    shape_only = ("data",)
    differentiable = False
    value: ClassVar[float]

    def expression(self, p: Params) -> Expression:
        """A constant."""
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


OPERATORS: tuple[type[OperatorProperty], ...] = (
    Zeros, Ones, Full, Arange, Linspace, Eye, ZerosLike, OnesLike,
)  # fmt: skip
