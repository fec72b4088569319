# SPDX-License-Identifier: Apache-2.0
"""Random arrays: uniform, normal, integers, Bernoulli-like draws with given or tensor parameters.

Numbers come from Philox counters reserved when the operator is pushed, so they depend on the seed
and on program order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, TypeVar

import numpy as np

from mx_core import dtypes, philox
from mx_core.errors import ArgumentError
from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    Types,
    opt,
    required,
)
from mx_core.operator.declaration import P

FLOATS = ("float16", "bfloat16", "float32", "float64", None)


class PlacedParam(Params):
    """Shape, place and type of a result that no input gives."""

    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=FLOATS)


class UniformLikeParam(Params):
    """Interval."""

    low: float = opt(0.0, "lower end, included", runtime=True)
    high: float = opt(1.0, "upper end, not included", runtime=True)


class UniformParam(UniformLikeParam, PlacedParam):
    """Interval, shape, place, type."""


class NormalLikeParam(Params):
    """Moments."""

    loc: float = opt(0.0, "mean", runtime=True)
    scale: float = opt(1.0, "standard deviation", runtime=True)


class NormalParam(NormalLikeParam, PlacedParam):
    """Moments, shape, place, type."""


class RangeParam(Params):
    """Interval of integers."""

    low: int = required("lower end, included")
    high: int = required("upper end, not included")


class RandintParam(RangeParam, PlacedParam):
    """Interval, shape, place, type."""

    dtype: str | None = opt(None, "type of the result; None: int32", choices=("int32", "int64", None))


class RateLikeParam(Params):
    """Rate."""

    lam: float = opt(1.0, "rate", runtime=True)


class ExponentialParam(RateLikeParam, PlacedParam):
    """Rate, shape, place, type."""


def check(op: str, condition: bool, what: str) -> None:
    """A wrong distribution parameter is an error of the execution, as in MXNet."""
    if not condition:
        raise ArgumentError(f"[{op}] {what}")


class Draw(Operator[P]):
    """Numbers of the shape and type that the parameters say, or of those of an input `data`."""

    arguments: ClassVar[tuple[str, ...]] = ()
    shape_only = ("data",)
    is_random = True
    differentiable = False
    default_type: ClassVar[str] = "float32"

    def infer_shape(self, p: P, s: Shapes) -> None:
        if isinstance(p, PlacedParam):
            s.assign("output", (1,) if p.shape is None else p.shape)
        else:
            s.unify(["data", "output"])

    def infer_type(self, p: P, t: Types) -> None:
        if isinstance(p, PlacedParam):
            t.assign("output", p.dtype or self.default_type)
        else:
            t.unify(["data", "output"])

    def random_blocks(self, p: P, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Two words an element: enough for every type."""
        return (prod(output_shapes[0]) + 1) // 2

    def draw(self, p: P, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        """n numbers for a result of type `dtype`."""
        raise NotImplementedError

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        if isinstance(p, PlacedParam):
            shape = (1,) if p.shape is None else p.shape
            dtype = dtypes.numpy_dtype(dtypes.code(p.dtype or self.default_type))
        else:
            shape, dtype = inputs[0].shape, inputs[0].dtype
        return (self.draw(p, ctx, prod(shape), dtype).astype(dtype).reshape(shape),)


def _wide(dtype: np.dtype[Any]) -> Any:
    return np.float64 if dtype == np.float64 else np.float32


U = TypeVar("U", bound=UniformLikeParam)
N = TypeVar("N", bound=NormalLikeParam)
R = TypeVar("R", bound=RateLikeParam)


class _Uniform(Draw[U]):
    def draw(self, p: U, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        check(self.name, p.low <= p.high, f"low {p.low} is above high {p.high}")
        u = philox.uniform(ctx.random_key, ctx.random_offset, n, dtype)
        wide = _wide(dtype)
        return u.astype(wide) * wide(p.high - p.low) + wide(p.low)


class _Normal(Draw[N]):
    def draw(self, p: N, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        check(self.name, p.scale >= 0, f"scale: expected at least 0, got {p.scale}")
        z = philox.normal(ctx.random_key, ctx.random_offset, n, dtype)
        wide = _wide(dtype)
        return z.astype(wide) * wide(p.scale) + wide(p.loc)


class _Exponential(Draw[R]):
    def draw(self, p: R, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        """The inverse distribution function."""
        check(self.name, p.lam > 0, f"lam: expected above 0, got {p.lam}")
        wide = _wide(dtype)
        u = philox.uniform(ctx.random_key, ctx.random_offset, n, wide)
        return -np.log1p(-u) / wide(p.lam)


class Uniform(_Uniform[UniformParam]):
    """Uniform in [low, high)."""

    name = "_random_uniform"
    aliases = ("random_uniform", "uniform")


class Normal(_Normal[NormalParam]):
    """Normal with mean loc and standard deviation scale."""

    name = "_random_normal"
    aliases = ("random_normal", "normal")


class Exponential(_Exponential[ExponentialParam]):
    """Exponential with rate lam."""

    name = "_random_exponential"
    aliases = ("random_exponential",)


class Randint(Draw[RandintParam]):
    """Integers in [low, high), which the type must have."""

    name = "_random_randint"
    aliases = ("random_randint",)
    default_type = "int32"

    def infer_type(self, p: RandintParam, t: Types) -> None:
        dtype = p.dtype or self.default_type
        span = np.iinfo(dtype)
        if p.low < span.min or p.high > int(span.max) + 1:
            raise ArgumentError(f"[{self.name}] [{p.low}, {p.high}) is not within the range of {dtype}")
        super().infer_type(p, t)

    def draw(self, p: RandintParam, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        """Scaled 64-bit words."""
        check(self.name, p.low < p.high, f"low {p.low} is not below high {p.high}")
        return philox.integers(ctx.random_key, ctx.random_offset, n, p.low, p.high)


class UniformLike(_Uniform[UniformLikeParam]):
    """Uniform in [low, high), of the shape and type of data."""

    name = "_random_uniform_like"
    arguments = ("data",)


class NormalLike(_Normal[NormalLikeParam]):
    """Normal, of the shape and type of data."""

    name = "_random_normal_like"
    arguments = ("data",)


class ExponentialLike(_Exponential[RateLikeParam]):
    """Exponential with rate lam, of the shape and type of data."""

    name = "_random_exponential_like"
    arguments = ("data",)
