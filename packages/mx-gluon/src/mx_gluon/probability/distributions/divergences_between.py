# SPDX-License-Identifier: Apache-2.0
"""Kullback-Leibler divergences between distributions of two families."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.distributions.divergence import register_kl
from mx_gluon.probability.distributions.exponential import Exponential
from mx_gluon.probability.distributions.gamma import Gamma
from mx_gluon.probability.distributions.gumbel import Gumbel
from mx_gluon.probability.distributions.normal import Normal
from mx_gluon.probability.distributions.uniform import Uniform
from mx_gluon.probability.values import EULER_GAMMA, HALF_LOG_2PI, Value, exp, gammaln, log


def _loc_scale(q: Any) -> tuple[Value, Value]:
    return Value(q.loc), Value(q.scale)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Any:
    loc, scale = _loc_scale(q)
    squares = p._variance() + (p._mean() - loc) ** 2  # the mean of (x - loc)**2
    return (log(scale) + HALF_LOG_2PI + squares / (2 * scale**2) - p._entropy()).raw


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Any:
    loc, scale = _loc_scale(q)
    low, high = (Value(p.low) - loc) / scale, (Value(p.high) - loc) / scale
    exponentials = (exp(-low) - exp(-high)) / (high - low)  # the mean of exp(-(x - loc) / scale)
    return (log(scale) + 0.5 * (low + high) + exponentials - p._entropy()).raw


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Any:
    loc, scale = _loc_scale(q)
    squares = p._variance() + (p._mean() - loc) ** 2
    return (log(scale) + HALF_LOG_2PI + squares / (2 * scale**2) - p._entropy()).raw


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Any:
    loc, scale = _loc_scale(q)
    mean = p._mean()
    exponentials = exp(loc / scale) / (1 + mean / scale)
    return (log(scale) + (mean - loc) / scale + exponentials - p._entropy()).raw


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Any:
    mean, shape, scale = p._mean(), Value(q.shape), Value(q.scale)
    logarithm = log(mean) - EULER_GAMMA  # the mean of log x
    normalizer = gammaln(shape) + shape * log(scale)
    return (normalizer - (shape - 1) * logarithm + mean / scale - p._entropy()).raw
