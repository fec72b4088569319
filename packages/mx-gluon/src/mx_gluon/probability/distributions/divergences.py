# SPDX-License-Identifier: Apache-2.0
"""Kullback-Leibler divergences between distributions of one family."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.distributions.bernoulli import Bernoulli
from mx_gluon.probability.distributions.beta import Beta
from mx_gluon.probability.distributions.binomial import Binomial
from mx_gluon.probability.distributions.categorical import Categorical
from mx_gluon.probability.distributions.cauchy import Cauchy
from mx_gluon.probability.distributions.dirichlet import Dirichlet
from mx_gluon.probability.distributions.divergence import kl_divergence, register_kl
from mx_gluon.probability.distributions.exponential import Exponential
from mx_gluon.probability.distributions.gamma import Gamma
from mx_gluon.probability.distributions.geometric import Geometric
from mx_gluon.probability.distributions.gumbel import Gumbel
from mx_gluon.probability.distributions.half_normal import HalfNormal
from mx_gluon.probability.distributions.independent import Independent
from mx_gluon.probability.distributions.laplace import Laplace
from mx_gluon.probability.distributions.multivariate_normal import MultivariateNormal
from mx_gluon.probability.distributions.normal import Normal
from mx_gluon.probability.distributions.one_hot_categorical import OneHotCategorical
from mx_gluon.probability.distributions.pareto import Pareto
from mx_gluon.probability.distributions.poisson import Poisson
from mx_gluon.probability.distributions.two_outcomes import TwoOutcomes
from mx_gluon.probability.distributions.uniform import Uniform
from mx_gluon.probability.values import (
    EULER_GAMMA,
    Value,
    absolute,
    digamma,
    exp,
    gammaln,
    log,
    namespace,
    sum_right_most,
    times,
    where,
)


def _pairs(p: Any, q: Any, *names: str) -> list[Value]:
    """Parameters of p and q in turn."""
    return [Value(getattr(each, name)) for name in names for each in (p, q)]


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Any:
    m, n, s, t = _pairs(p, q, "loc", "scale")
    ratio = (s / t) ** 2
    return (0.5 * (ratio + ((m - n) / t) ** 2 - 1 - log(ratio))).raw


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Any:
    s, t = _pairs(p, q, "scale")
    ratio = (s / t) ** 2
    return (0.5 * (ratio - 1 - log(ratio))).raw


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Any:
    m, n, s, t = _pairs(p, q, "loc", "scale")
    distance = absolute(m - n)
    return (log(t / s) + (s * exp(-distance / s) + distance) / t - 1).raw


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Any:
    m, n, s, t = _pairs(p, q, "loc", "scale")
    return (log((s + t) ** 2 + (m - n) ** 2) - log(4 * s * t)).raw


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Any:
    a, c, b, d = _pairs(p, q, "low", "high")
    return where((a < c) + (b > d), math.inf, log((d - c) / (b - a))).raw


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Any:
    s, t = _pairs(p, q, "scale")
    ratio = s / t
    return (ratio - 1 - log(ratio)).raw


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Any:
    a, b, s, t = _pairs(p, q, "alpha", "scale")
    return where(s < t, math.inf, log(a / b) + b * log(s / t) + b / a - 1).raw


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Any:
    m, n, s, t = _pairs(p, q, "loc", "scale")
    shift, ratio = (m - n) / t, s / t
    return (
        shift + ratio * EULER_GAMMA - log(ratio) + exp(gammaln(1 + ratio) - shift) - (1 + EULER_GAMMA)
    ).raw


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Any:
    a, b, s, t = _pairs(p, q, "shape", "scale")
    return ((a - b) * digamma(a) - gammaln(a) + gammaln(b) + b * log(t / s) + a * (s / t - 1)).raw


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Any:
    a, c, b, d = _pairs(p, q, "alpha", "beta")
    total = a + b
    means = (a - c) * digamma(a) + (b - d) * digamma(b) - (total - c - d) * digamma(total)
    return (means + q._log_beta() - p._log_beta()).raw


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = _pairs(p, q, "alpha")
    means = digamma(a) - digamma(a.sum(-1, keepdims=True))
    return (((a - b) * means).sum(-1) + q._log_normalizer() - p._log_normalizer()).raw


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Any:
    r, s = _pairs(p, q, "rate")
    none = r.equals(0.0)
    return (r * log(where(none, 1.0, r) / where(none, 1.0, s)) - r + s).raw


def _of_a_trial(p: TwoOutcomes, q: TwoOutcomes) -> Value:
    shares = Value(p.prob), p._complement()
    return p._log_prob_of(*shares) - q._log_prob_of(*shares)


def _mean_difference(weights: Value, a: Value, b: Value) -> Value:
    """weights * (a - b), and 0 where the weights are 0."""
    return times(weights, a) - times(weights, b)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    return _of_a_trial(p, q).raw


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Any:
    if p.n == q.n:
        return (_of_a_trial(p, q) * p.n).raw
    if p.n > q.n:
        return ((Value(p.prob) + q.prob).zeros() + math.inf).raw
    total = Value(0.0)
    for k in range(p.n + 1):
        log_p, log_q = p._log_prob(Value(k)), q._log_prob(Value(k))
        total = total + _mean_difference(exp(log_p), log_p, log_q)
    return total.raw


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Any:
    return (_of_a_trial(p, q) / p.prob).raw


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Any:
    return (p._log_probs_times(p.prob) - q._log_probs_times(p.prob)).sum(-1).raw


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    inverse, tril = q._inverse_tril, Value(p.scale_tril)
    zeros = inverse.zeros() + tril.zeros()
    whitened = Value(namespace(zeros.raw).linalg.gemm2((inverse + zeros).raw, (tril + zeros).raw))
    difference = ((inverse * (Value(p.loc) - q.loc).expanded(-2)).sum(-1)) ** 2
    halves = 0.5 * (difference + (whitened**2).sum(-1) - 1)
    return (halves + q._log_diagonal() - p._log_diagonal()).sum(-1).raw


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "[kl_divergence] reinterpreted_batch_ndims of both have to be equal, got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    inner = Value(kl_divergence(p.base_dist, q.base_dist)) + p._base_zeros() + q._base_zeros()
    return sum_right_most(inner, p.reinterpreted_batch_ndims).raw
