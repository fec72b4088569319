# SPDX-License-Identifier: Apache-2.0
"""Random arrays of gamma, Poisson and negative binomial numbers with given parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.random import variates
from mx_operators.random.draw import Draw, Exponential, check

_FLOATS = ("float16", "bfloat16", "float32", "float64", None)


@param
class GammaParam:
    """Shape and scale, shape of the result, type, place."""

    alpha: float = opt(1.0, "shape of the distribution", runtime=True)
    beta: float = opt(1.0, "scale", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class GammaLikeParam:
    """Shape and scale."""

    alpha: float = opt(1.0, "shape of the distribution", runtime=True)
    beta: float = opt(1.0, "scale", runtime=True)


@param
class PoissonParam:
    """Rate, shape, type, place."""

    lam: float = opt(1.0, "mean", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class RateLikeParam:
    """Rate."""

    lam: float = opt(1.0, "rate", runtime=True)


@param
class NegativeBinomialParam:
    """Successes and their probability, shape, type, place."""

    k: int = opt(1, "number of successes", runtime=True)
    p: float = opt(1.0, "probability of a success", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class NegativeBinomialLikeParam:
    """Successes and their probability."""

    k: int = opt(1, "number of successes", runtime=True)
    p: float = opt(1.0, "probability of a success", runtime=True)


@param
class GeneralizedParam:
    """Mean and dispersion, shape, type, place."""

    mu: float = opt(1.0, "mean", runtime=True)
    alpha: float = opt(1.0, "the variance is mu + alpha·mu²", runtime=True)
    shape: Shape | None = opt(None, "shape of the result")
    ctx: str = opt("", "context of the result, `cpu(0)`")
    dtype: str | None = opt(None, "type of the result; None: float32", choices=_FLOATS)


@param
class GeneralizedLikeParam:
    """Mean and dispersion."""

    mu: float = opt(1.0, "mean", runtime=True)
    alpha: float = opt(1.0, "the variance is mu + alpha·mu²", runtime=True)


class CounterDraw(Draw):
    """A draw that takes one counter per element."""

    def random_blocks(self, p: Any, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """One an element."""
        return prod(output_shapes[0])

    def draw(self, p: Any, ctx: ReferenceContext, n: int, dtype: Any) -> Any:
        """n numbers of one distribution."""
        stream = variates.Stream(ctx.random_key, ctx.random_offset, n)
        return self.numbers(p, stream)

    def numbers(self, p: Any, stream: variates.Stream) -> Any:
        """One number per counter."""
        raise NotImplementedError


def _filled(stream: variates.Stream, value: float) -> Any:
    return np.full(stream.n, float(value))


class Gamma(CounterDraw):
    """Gamma with shape alpha and scale beta: mean alpha·beta."""

    name = "_random_gamma"
    aliases: ClassVar[tuple[str, ...]] = ("random_gamma",)
    Param: ClassVar[Any] = GammaParam

    def numbers(self, p: Any, stream: variates.Stream) -> Any:
        """Scaled gamma numbers."""
        check(self.name, 0 < p.alpha < inf, f"alpha: expected above 0 and finite, got {p.alpha}")
        check(self.name, 0 < p.beta < inf, f"beta: expected above 0 and finite, got {p.beta}")
        return variates.gamma(stream, _filled(stream, p.alpha)) * p.beta


class Poisson(CounterDraw):
    """Poisson with mean lam."""

    name = "_random_poisson"
    aliases: ClassVar[tuple[str, ...]] = ("random_poisson",)
    Param: ClassVar[Any] = PoissonParam

    def numbers(self, p: Any, stream: variates.Stream) -> Any:
        """Counts."""
        check(self.name, 0 <= p.lam < inf, f"lam: expected at least 0 and finite, got {p.lam}")
        return variates.poisson(stream, _filled(stream, p.lam))


class NegativeBinomial(CounterDraw):
    """Failures before the k-th success of probability p: mean k·(1 − p)/p."""

    name = "_random_negative_binomial"
    aliases: ClassVar[tuple[str, ...]] = ("random_negative_binomial",)
    Param: ClassVar[Any] = NegativeBinomialParam

    def numbers(self, p: Any, stream: variates.Stream) -> Any:
        """Counts."""
        check(self.name, p.k > 0, f"k: expected above 0, got {p.k}")
        check(self.name, 0 < p.p <= 1, f"p: expected above 0 and at most 1, got {p.p}")
        return variates.negative_binomial(stream, _filled(stream, p.k), _filled(stream, p.p))


class GeneralizedNegativeBinomial(CounterDraw):
    """Counts of mean mu and variance mu + alpha·mu²."""

    name = "_random_generalized_negative_binomial"
    aliases: ClassVar[tuple[str, ...]] = ("random_generalized_negative_binomial",)
    Param: ClassVar[Any] = GeneralizedParam

    def numbers(self, p: Any, stream: variates.Stream) -> Any:
        """Counts."""
        check(self.name, 0 <= p.mu < inf, f"mu: expected at least 0 and finite, got {p.mu}")
        check(self.name, 0 <= p.alpha < inf, f"alpha: expected at least 0 and finite, got {p.alpha}")
        mu, alpha = _filled(stream, p.mu), _filled(stream, p.alpha)
        return variates.generalized_negative_binomial(stream, mu, alpha)


class GammaLike(Gamma):
    """Gamma with shape alpha and scale beta, of the shape and type of data."""

    name = "_random_gamma_like"
    aliases = ()
    Param = GammaLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


class PoissonLike(Poisson):
    """Poisson with mean lam, of the shape and type of data."""

    name = "_random_poisson_like"
    aliases = ()
    Param = RateLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


class NegativeBinomialLike(NegativeBinomial):
    """Failures before the k-th success, of the shape and type of data."""

    name = "_random_negative_binomial_like"
    aliases = ()
    Param = NegativeBinomialLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


class GeneralizedNegativeBinomialLike(GeneralizedNegativeBinomial):
    """Counts of mean mu and variance mu + alpha·mu², of the shape and type of data."""

    name = "_random_generalized_negative_binomial_like"
    aliases = ()
    Param = GeneralizedLikeParam
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


class ExponentialLike(Exponential):
    """Exponential with rate lam, of the shape and type of data."""

    name = "_random_exponential_like"
    aliases = ()  # type: ignore[assignment]  # narrowed to one name in Exponential
    Param = RateLikeParam  # type: ignore[assignment]  # likewise
    arguments = ("data",)
    shape_only_inputs = frozenset((0,))


OPERATORS: tuple[type[OperatorProperty], ...] = (
    Gamma, Poisson, NegativeBinomial, GeneralizedNegativeBinomial, GammaLike, PoissonLike,
    NegativeBinomialLike, GeneralizedNegativeBinomialLike, ExponentialLike,
)  # fmt: skip
