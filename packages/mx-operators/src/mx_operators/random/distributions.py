# SPDX-License-Identifier: Apache-2.0
"""Random arrays of gamma, Poisson and negative binomial numbers with given parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, TypeVar

import numpy as np

from mx_core.operator import Array, Params, ReferenceContext, opt
from mx_core.operator.declaration import P
from mx_operators.random import variates
from mx_operators.random.draw import Draw, PlacedParam, RateLikeParam, check


class GammaLikeParam(Params):
    """Shape and scale."""

    alpha: float = opt(1.0, "shape of the distribution", runtime=True)
    beta: float = opt(1.0, "scale", runtime=True)


class GammaParam(GammaLikeParam, PlacedParam):
    """Shape and scale, shape of the result, place, type."""


class PoissonParam(RateLikeParam, PlacedParam):
    """Rate, shape, place, type."""

    lam: float = opt(1.0, "mean", runtime=True)


class NegativeBinomialLikeParam(Params):
    """Successes and their probability."""

    k: int = opt(1, "number of successes", runtime=True)
    p: float = opt(1.0, "probability of a success", runtime=True)


class NegativeBinomialParam(NegativeBinomialLikeParam, PlacedParam):
    """Successes and their probability, shape, place, type."""


class GeneralizedLikeParam(Params):
    """Mean and dispersion."""

    mu: float = opt(1.0, "mean", runtime=True)
    alpha: float = opt(1.0, "the variance is mu + alpha·mu²", runtime=True)


class GeneralizedParam(GeneralizedLikeParam, PlacedParam):
    """Mean and dispersion, shape, place, type."""


class CounterDraw(Draw[P]):
    """A draw that takes one counter per element."""

    def random_blocks(self, p: P, output_shapes: Sequence[tuple[int, ...]]) -> int:
        return prod(output_shapes[0])

    def draw(self, p: P, ctx: ReferenceContext, n: int, dtype: np.dtype[Any]) -> Array:
        return self.numbers(p, variates.Stream(ctx.random_key, ctx.random_offset, n))

    def numbers(self, p: P, stream: variates.Stream) -> Array:
        """One number per counter."""
        raise NotImplementedError


def _filled(stream: variates.Stream, value: float) -> Array:
    return np.full(stream.n, float(value))


G = TypeVar("G", bound=GammaLikeParam)
R = TypeVar("R", bound=RateLikeParam)
B = TypeVar("B", bound=NegativeBinomialLikeParam)
M = TypeVar("M", bound=GeneralizedLikeParam)


class _Gamma(CounterDraw[G]):
    def numbers(self, p: G, stream: variates.Stream) -> Array:
        check(self.name, 0 < p.alpha < inf, f"alpha: expected above 0 and finite, got {p.alpha}")
        check(self.name, 0 < p.beta < inf, f"beta: expected above 0 and finite, got {p.beta}")
        return variates.gamma(stream, _filled(stream, p.alpha)) * p.beta


class _Poisson(CounterDraw[R]):
    def numbers(self, p: R, stream: variates.Stream) -> Array:
        check(self.name, 0 <= p.lam < inf, f"lam: expected at least 0 and finite, got {p.lam}")
        return variates.poisson(stream, _filled(stream, p.lam))


class _NegativeBinomial(CounterDraw[B]):
    def numbers(self, p: B, stream: variates.Stream) -> Array:
        check(self.name, p.k > 0, f"k: expected above 0, got {p.k}")
        check(self.name, 0 < p.p <= 1, f"p: expected above 0 and at most 1, got {p.p}")
        return variates.negative_binomial(stream, _filled(stream, p.k), _filled(stream, p.p))


class _GeneralizedNegativeBinomial(CounterDraw[M]):
    def numbers(self, p: M, stream: variates.Stream) -> Array:
        check(self.name, 0 <= p.mu < inf, f"mu: expected at least 0 and finite, got {p.mu}")
        check(self.name, 0 <= p.alpha < inf, f"alpha: expected at least 0 and finite, got {p.alpha}")
        mu, alpha = _filled(stream, p.mu), _filled(stream, p.alpha)
        return variates.generalized_negative_binomial(stream, mu, alpha)


class Gamma(_Gamma[GammaParam]):
    """Gamma with shape alpha and scale beta: mean alpha·beta."""

    name = "_random_gamma"
    aliases = ("random_gamma",)


class Poisson(_Poisson[PoissonParam]):
    """Poisson with mean lam."""

    name = "_random_poisson"
    aliases = ("random_poisson",)


class NegativeBinomial(_NegativeBinomial[NegativeBinomialParam]):
    """Failures before the k-th success of probability p: mean k·(1 − p)/p."""

    name = "_random_negative_binomial"
    aliases = ("random_negative_binomial",)


class GeneralizedNegativeBinomial(_GeneralizedNegativeBinomial[GeneralizedParam]):
    """Counts of mean mu and variance mu + alpha·mu²."""

    name = "_random_generalized_negative_binomial"
    aliases = ("random_generalized_negative_binomial",)


class GammaLike(_Gamma[GammaLikeParam]):
    """Gamma with shape alpha and scale beta, of the shape and type of data."""

    name = "_random_gamma_like"
    arguments = ("data",)


class PoissonLike(_Poisson[RateLikeParam]):
    """Poisson with mean lam, of the shape and type of data."""

    name = "_random_poisson_like"
    arguments = ("data",)


class NegativeBinomialLike(_NegativeBinomial[NegativeBinomialLikeParam]):
    """Failures before the k-th success, of the shape and type of data."""

    name = "_random_negative_binomial_like"
    arguments = ("data",)


class GeneralizedNegativeBinomialLike(_GeneralizedNegativeBinomial[GeneralizedLikeParam]):
    """Counts of mean mu and variance mu + alpha·mu², of the shape and type of data."""

    name = "_random_generalized_negative_binomial_like"
    arguments = ("data",)
