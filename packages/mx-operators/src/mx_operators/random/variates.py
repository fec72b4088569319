# SPDX-License-Identifier: Apache-2.0
"""Numbers of gamma, Poisson and mixed distributions from Philox counters.

Every element has a counter of its own; the tries of a rejection method take branches of it, so an
element depends on nothing but key, counter and its parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lgamma

import numpy as np

from mx_core import philox
from mx_core.operator import Array

_BOOST, _COUNT = 1 << 40, 1 << 48  # branches in addition to those of the tries
_SMALL_FACTORIALS = np.array([lgamma(k + 1) for k in range(16)])


class Stream:
    """n counters from `offset` of a stream, one per element."""

    def __init__(self, key: int, offset: int, n: int) -> None:
        self._key, self._offset, self.n = key, offset, n

    def uniforms(self, branch: int) -> tuple[Array, Array]:
        """Two uniform numbers in [0, 1) per element, multiples of 2⁻⁵³."""
        w = philox.words(self._key, self._offset, self.n, branch).astype(np.uint64)
        first, second = (
            ((w[:, i] | (w[:, i + 1] << np.uint64(32))) >> np.uint64(11)) * 2.0**-53 for i in (0, 2)
        )
        return first, second

    def normals(self, branch: int) -> Array:
        """A standard normal number per element, by Box and Muller."""
        u, v = self.uniforms(branch)
        return np.sqrt(-2 * np.log(u + 2.0**-53)) * np.cos(2 * np.pi * v)


def _tries(n: int, first: int) -> Iterator[tuple[int, Array, Array]]:
    """Branch, result so far and which elements wait, until none does."""
    result, waiting = np.zeros(n), np.ones(n, bool)
    branch = first
    while waiting.any():
        yield branch, result, waiting
        branch += 2


def gamma(stream: Stream, shape: Array) -> Array:
    """Gamma numbers of scale 1 and positive, finite shapes (n,).

    Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000.
    """
    d = np.where(shape < 1, shape + 1, shape) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    result = np.zeros(stream.n)
    for branch, result, waiting in _tries(stream.n, 0):
        x, (u, _) = stream.normals(branch), stream.uniforms(branch + 1)
        v = (1 + c * x) ** 3
        safe = np.where(v > 0, v, 1)
        fits = (v > 0) & (np.log(u + 2.0**-53) < 0.5 * x * x + d * (1 - safe + np.log(safe)))
        np.copyto(result, d * safe, where=waiting & fits)
        waiting &= ~fits
    boost = stream.uniforms(_BOOST)[0] + 2.0**-53
    return np.where(shape < 1, result * boost ** (1 / shape), result)


def _log_factorial(k: Array) -> Array:
    """log k!: a table, and Stirling's series from 16 on."""
    x = np.maximum(k, 16.0)
    series = (x + 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi) + 1 / (12 * x) - 1 / (360 * x**3)
    return np.where(k < 16, _SMALL_FACTORIALS[np.clip(k, 0, 15).astype(np.int64)], series)


def poisson(stream: Stream, rate: Array, first: int = 0) -> Array:
    """Poisson numbers of rates (n,) of at least 0; an infinite rate gives infinity.

    Below a rate of 10 by inversion of the distribution function, above by transformed rejection.
    Source: Hörmann, The transformed rejection method for generating Poisson random variables, 1993.
    """
    low = _poisson_by_inversion(stream, np.where(rate < 10, rate, 0.0), first)
    if not (rate >= 10).any():
        return low
    usable = np.isfinite(rate) & (rate >= 10)
    high = _poisson_by_rejection(stream, np.where(usable, rate, 10.0), first + 2)
    return np.where(rate < 10, low, np.where(usable, high, np.inf))


def _poisson_by_inversion(stream: Stream, rate: Array, branch: int) -> Array:
    u = stream.uniforms(branch)[0]
    count, term = np.zeros(stream.n), np.exp(-rate)
    total = term.copy()
    for k in range(1, 100):
        beyond = u >= total
        if not beyond.any():
            break
        count[beyond] = k
        term = term * rate / k
        total = total + term
    return count


def _poisson_by_rejection(stream: Stream, rate: Array, first: int) -> Array:
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, accept = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    result = np.zeros(stream.n)
    for branch, result, waiting in _tries(stream.n, first):
        u, v = stream.uniforms(branch)
        u, v = u - 0.5, v + 2.0**-53
        edge = np.maximum(0.5 - abs(u), 2.0**-54)
        k = np.floor((2 * a / edge + b) * u + rate + 0.43)
        inside = (k >= 0) & ((edge >= 0.013) | (v <= edge))
        left = np.log(v * inverse_alpha / (a / edge**2 + b))
        fits = inside & (left <= k * np.log(rate) - rate - _log_factorial(k))
        fits |= (edge >= 0.07) & (v <= accept)
        np.copyto(result, k, where=waiting & fits)
        waiting &= ~fits
    return result


def negative_binomial(stream: Stream, k: Array, p: Array) -> Array:
    """Failures before the k-th success of probability p: a Poisson number of gamma rate."""
    with np.errstate(over="ignore"):
        return poisson(stream, gamma(stream, k) * ((1 - p) / p), _COUNT)


def generalized_negative_binomial(stream: Stream, mu: Array, alpha: Array) -> Array:
    """Mean mu and variance mu + alpha·mu²: a Poisson number of gamma rate, or of rate mu for alpha 0."""
    spread = alpha > np.finfo(np.float64).tiny  # the inverse of less than that is infinite
    safe = np.where(spread, alpha, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        rate = np.where(mu > 0, gamma(stream, 1 / safe) * (mu * safe), 0.0)
    return poisson(stream, np.where(spread, rate, mu), _COUNT)
