# SPDX-License-Identifier: Apache-2.0
"""Random numbers whose distribution's parameters are arrays: `shape` numbers for every element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mx_core import dtypes
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, Types, opt
from mx_operators.random import variates
from mx_operators.random.draw import check
from mx_operators.random.variates import Stream

_FLOATS = ("float16", "bfloat16", "float32", "float64", None)


class SampleParam(Params):
    """Numbers per element, type."""

    shape: Shape = opt((), "numbers drawn for every element; () is one")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


class Sample(Operator[SampleParam]):
    """Parameters of shape S give numbers of shape S + shape; one counter each."""

    is_random = True
    differentiable = False
    #: from a stream and parameters (n,)
    numbers: ClassVar[Callable[..., Array]]
    #: name of a parameter: its bounds, and whether the lower one belongs to it
    bounds: ClassVar[dict[str, tuple[float, float, bool]]] = {}

    def shown(self, value: float) -> str:
        """A parameter, for errors."""
        return f"{value:g}"

    def infer_shape(self, p: SampleParam, s: Shapes) -> None:
        s.unify(self.arguments)
        given = s.get(self.arguments[0])
        if given is not None:
            s.assign("output", (*given, *p.shape))

    def infer_type(self, p: SampleParam, t: Types) -> None:
        t.unify(self.arguments)
        t.assign("output", p.dtype or "float32")

    def random_blocks(self, p: SampleParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        return prod(output_shapes[0])

    def reference(self, p: SampleParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        values = [np.asarray(x, np.float64).ravel() for x in inputs]
        for name, value in zip(self.arguments, values, strict=True):
            low, high, included = self.bounds.get(name, (-np.inf, np.inf, False))
            fine = ((value >= low) if included else (value > low)) & (value <= high) & np.isfinite(value)
            sign = "≥" if included else ">"
            got = "" if fine.all() else f", got {self.shown(value[~fine][0])}"
            check(self.name, not got, f"{name}: expected finite numbers {sign} {low:g}, ≤ {high:g}{got}")
        each = prod(p.shape)
        stream = Stream(ctx.random_key, ctx.random_offset, inputs[0].size * each)
        drawn = type(self).numbers(stream, *(value.repeat(each) for value in values))
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype or "float32"))
        return (drawn.reshape(*inputs[0].shape, *p.shape).astype(dtype),)


def _uniform(stream: Stream, low: Array, high: Array) -> Array:
    return low + stream.uniforms(0)[0] * (high - low)


def _normal(stream: Stream, mu: Array, sigma: Array) -> Array:
    return mu + stream.normals(0) * sigma


def _exponential(stream: Stream, lam: Array) -> Array:
    return -np.log1p(-stream.uniforms(0)[0]) / lam


def _gamma(stream: Stream, alpha: Array, beta: Array) -> Array:
    return variates.gamma(stream, alpha) * beta


class SampleUniform(Sample):
    """Uniform in [low, high)."""

    name = "_sample_uniform"
    aliases = ("sample_uniform",)
    arguments = ("low", "high")
    numbers = staticmethod(_uniform)


class SampleNormal(Sample):
    """Normal with mean mu and standard deviation sigma."""

    name = "_sample_normal"
    aliases = ("sample_normal",)
    arguments = ("mu", "sigma")
    numbers = staticmethod(_normal)
    bounds = {"sigma": (0, np.inf, True)}


class SampleExponential(Sample):
    """Exponential with rate lam."""

    name = "_sample_exponential"
    aliases = ("sample_exponential",)
    arguments = ("lam",)
    numbers = staticmethod(_exponential)
    bounds = {"lam": (0, np.inf, False)}

    def shown(self, value: float) -> str:
        """The rate, and the mean: functions of the front ends take that."""
        return f"{value:g} = 1 / {1 / value:g}" if value else "0"


class SampleGamma(Sample):
    """Gamma with shape alpha and scale beta."""

    name = "_sample_gamma"
    aliases = ("sample_gamma",)
    arguments = ("alpha", "beta")
    numbers = staticmethod(_gamma)
    bounds = {"alpha": (0, np.inf, False), "beta": (0, np.inf, False)}


class SamplePoisson(Sample):
    """Poisson with mean lam."""

    name = "_sample_poisson"
    aliases = ("sample_poisson",)
    arguments = ("lam",)
    numbers = staticmethod(variates.poisson)
    bounds = {"lam": (0, np.inf, True)}


class SampleNegativeBinomial(Sample):
    """Failures before the k-th success of probability p."""

    name = "_sample_negative_binomial"
    aliases = ("sample_negative_binomial",)
    arguments = ("k", "p")
    numbers = staticmethod(variates.negative_binomial)
    bounds = {"k": (0, np.inf, False), "p": (0, 1, False)}


class SampleGeneralizedNegativeBinomial(Sample):
    """Counts of mean mu and variance mu + alpha·mu²."""

    name = "_sample_generalized_negative_binomial"
    aliases = ("sample_generalized_negative_binomial",)
    arguments = ("mu", "alpha")
    numbers = staticmethod(variates.generalized_negative_binomial)
    bounds = {"mu": (0, np.inf, True), "alpha": (0, np.inf, True)}
