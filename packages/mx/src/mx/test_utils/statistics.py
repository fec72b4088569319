# SPDX-License-Identifier: Apache-2.0
"""Tests of whether samples follow a distribution.

Source: Pearson's chi-square test; the distribution of its statistic through the regularised
incomplete gamma function (Abramowitz and Stegun, Handbook of Mathematical Functions, 6.5, 26.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx.test_utils.compare import host
from mx_core.errors import ArgumentError

Generator = Callable[[int], Any]


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Intervals of equal probability from a quantile function, and their probabilities."""
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges, edges[1:], strict=False)), [1 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of samples lies within three standard errors of `mu`."""
    mean = float(host(generator(nsamples)).mean(dtype=np.float64))
    return abs(mean - mu) < 3 * sigma / math.sqrt(nsamples)


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of samples lies within three standard errors of sigma²."""
    values = host(generator(nsamples)).astype(np.float64)
    variance = values.var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * math.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Generator, buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pearson's test of samples against a distribution.

    Parameters
    ----------
    generator : function of the number of samples
    buckets : intervals (low, high) of a continuous distribution, or the values of a discrete one
    probs : probability of each bucket

    Returns
    -------
    (p-value, counts, expected counts)
    """
    if len(buckets) != len(probs) or not buckets:
        raise ArgumentError(f"[chi_square_check] {len(buckets)} buckets for {len(probs)} probabilities")
    values = host(generator(nsamples)).ravel()
    if isinstance(buckets[0], (tuple, list)):
        counts = np.array([((values >= low) & (values < high)).sum() for low, high in buckets])
    else:
        counts = np.array([(values == bucket).sum() for bucket in buckets])
    expected = values.size * np.asarray(probs, np.float64)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return _upper_gamma((len(probs) - 1) / 2, statistic / 2), counts, expected


def verify_generator(
    generator: Generator, buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000,
    nrepeat: int = 5, success_rate: float = 0.2, alpha: float = 0.05,
) -> list[float]:  # fmt: skip
    """Checks that enough of several chi-square tests give a p-value above `alpha`; returns the p-values."""
    p_values = [chi_square_check(generator, buckets, probs, nsamples)[0] for _ in range(nrepeat)]
    passed = sum(p > alpha for p in p_values)
    if passed < nrepeat * success_rate:
        raise AssertionError(
            f"the samples do not follow the distribution: p-values {p_values}, of which {passed} exceed {alpha}"
        )
    return p_values


def _upper_gamma(a: float, x: float) -> float:
    """Q(a, x): a series of the lower function below a + 1, Legendre's continued fraction above."""
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while abs(term) > abs(total) * 1e-15:
            k += 1
            term *= x / k
            total += term
        return max(0.0, 1 - front * total)
    value = 0.0
    for i in range(500, 0, -1):
        value = i * (i - a) / (x + 2 * i + 1 - a - value)
    return front / (x + 1 - a - value)
