# SPDX-License-Identifier: Apache-2.0
"""Random arrays: uniform, normal, integers, Bernoulli-like draws with given or tensor parameters.

Numbers come from Philox counters reserved when the operator is pushed, so they depend on the seed
and on program order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from mx_core import dtypes, philox
from mx_core.errors import ArgumentError
from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext

_FLOATS = ("float16", "bfloat16", "float32", "float64", None)


@param
class UniformParam:
    """Interval, shape, type, place."""

    low: float = opt(0.0, "lower end, included", runtime=True)
    high: float = opt(1.0, "upper end, not included", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class NormalParam:
    """Moments, shape, type, place."""

    loc: float = opt(0.0, "mean", runtime=True)
    scale: float = opt(1.0, "standard deviation", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class RandintParam:
    """Interval, shape, type, place."""

    low: int = required("lower end, included")
    high: int = required("upper end, not included")
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: int32", choices=("int32", "int64", None))


@param
class ExponentialParam:
    """Rate, shape, type, place."""

    lam: float = opt(1.0, "rate", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class UniformLikeParam:
    """Interval."""

    low: float = opt(0.0, "lower end, included", runtime=True)
    high: float = opt(1.0, "upper end, not included", runtime=True)


@param
class NormalLikeParam:
    """Moments."""

    loc: float = opt(0.0, "mean", runtime=True)
    scale: float = opt(1.0, "standard deviation", runtime=True)


def check(op: str, condition: bool, what: str) -> None:
    """A wrong distribution parameter is an error of the execution, as in MXNet."""
    if not condition:
        raise ArgumentError(f"[{op}] {what}")


class Draw(OperatorProperty):
    """Shared declaration: numbers of `shape` or of the shape of an input."""

    arguments: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    Param: ClassVar[Any]
    is_random = True
    default_type = "float32"

    def infer_shape(self, p: Any, s: Any) -> None:
        """From the parameter, or as data."""
        if self.arguments:
            s.unify(["data", "output"])
        else:
            s.assign("output", (1,) if p.shape is None else p.shape)

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter, or as data."""
        if self.arguments:
            t.unify(["data", "output"])
        else:
            t.assign("output", p.dtype or self.default_type)

    def random_blocks(self, p: Any, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Two words an element: enough for every type."""
        return (prod(output_shapes[0]) + 1) // 2

    def _place(self, p: Any, inputs: Sequence[Any]) -> tuple[tuple[int, ...], Any]:
        if inputs:
            return inputs[0].shape, inputs[0].dtype
        shape = (1,) if p.shape is None else p.shape
        return shape, dtypes.numpy_dtype(dtypes.code(p.dtype or self.default_type))

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """n numbers."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """With NumPy."""
        shape, dtype = self._place(p, inputs)
        return (self.draw(p, ctx, prod(shape), dtype).astype(dtype).reshape(shape),)


class Uniform(Draw):
    """Uniform in [low, high)."""

    name = "_random_uniform"
    aliases: ClassVar[tuple[str, ...]] = ("random_uniform", "uniform")
    Param: ClassVar[Any] = UniformParam

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """A stretched unit interval."""
        check(self.name, p.low <= p.high, f"low {p.low} is above high {p.high}")
        u = philox.uniform(ctx.random_key, ctx.random_offset, n, dtype)
        wide: Any = np.float64 if dtype == np.float64 else np.float32
        return u.astype(wide) * wide(p.high - p.low) + wide(p.low)


class Normal(Draw):
    """Normal with mean loc and standard deviation scale."""

    name = "_random_normal"
    aliases: ClassVar[tuple[str, ...]] = ("random_normal", "normal")
    Param: ClassVar[Any] = NormalParam

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """Box and Muller."""
        check(self.name, p.scale >= 0, f"scale: expected at least 0, got {p.scale}")
        z = philox.normal(ctx.random_key, ctx.random_offset, n, dtype)
        wide: Any = np.float64 if dtype == np.float64 else np.float32
        return z.astype(wide) * wide(p.scale) + wide(p.loc)


class Exponential(Draw):
    """Exponential with rate lam."""

    name = "_random_exponential"
    aliases = ("random_exponential",)
    Param = ExponentialParam

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """The inverse distribution function."""
        check(self.name, p.lam > 0, f"lam: expected above 0, got {p.lam}")
        wide = np.float64 if dtype == np.float64 else np.float32
        u = philox.uniform(ctx.random_key, ctx.random_offset, n, wide)
        return -np.log1p(-u) / wide(p.lam)


class Randint(Draw):
    """Integers in [low, high)."""

    name = "_random_randint"
    aliases = ("random_randint",)
    Param = RandintParam
    default_type = "int32"

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """Scaled 64-bit words."""
        check(self.name, p.low < p.high, f"low {p.low} is not below high {p.high}")
        return philox.integers(ctx.random_key, ctx.random_offset, n, p.low, p.high)


class UniformLike(Uniform):
    """Uniform in [low, high), of the shape and type of data."""

    name = "_random_uniform_like"
    aliases = ()
    Param = UniformLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


class NormalLike(Normal):
    """Normal, of the shape and type of data."""

    name = "_random_normal_like"
    aliases = ()
    Param = NormalLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


OPERATORS: tuple[type[OperatorProperty], ...] = (
    Uniform, Normal, Exponential, Randint, UniformLike, NormalLike,
)  # fmt: skip
