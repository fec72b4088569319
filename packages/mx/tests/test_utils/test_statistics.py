# SPDX-License-Identifier: Apache-2.0
"""Samples follow a distribution or are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mx
from mx import test_utils as utils
from mx.test_utils.statistics import _upper_gamma


def test_samples_follow_their_distribution() -> None:
    assert _upper_gamma(0.5, 1.9207) == pytest.approx(0.05, rel=1e-3)  # χ² of 3.841, one degree
    assert _upper_gamma(10, 9.1) == pytest.approx(0.57, abs=0.01)
    mx.random.seed(5)
    np.random.seed(5)

    def normal(n: int) -> np.ndarray:
        return mx.nd.random.normal(2, 3, (n,)).asnumpy()

    assert utils.mean_check(normal, 2, 3, 20000) and utils.var_check(normal, 3, 20000)
    assert not utils.mean_check(normal, 2.5, 3, 20000) and not utils.var_check(normal, 3.5, 20000)
    buckets, probs = utils.gen_buckets_probs_with_ppf(lambda q: q, 5)
    utils.verify_generator(lambda n: mx.nd.random.uniform(shape=(n,)).asnumpy(), buckets, probs, 20000)
    with pytest.raises(AssertionError, match="do not follow"):
        utils.verify_generator(lambda n: np.random.rand(n) ** 2, buckets, probs, 20000)
    coin = utils.chi_square_check(lambda n: np.arange(n) % 2, [0, 1], [0.5, 0.5], 1000)
    assert coin[0] == 1.0 and coin[1].tolist() == [500, 500]


@pytest.mark.parametrize(("errors", "accepted"), [(2.9, True), (-2.9, True), (3.1, False), (-3.1, False)])
def test_means_and_variances_may_be_three_standard_errors_away(errors: float, accepted: bool) -> None:
    n, sigma = 400, 2.0
    mean = 5 + errors * sigma / math.sqrt(n)
    assert utils.mean_check(lambda count: np.full(count, mean), 5, sigma, n) is accepted
    variance = sigma**2 + errors * math.sqrt(2 * sigma**4 / (n - 1))
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    spread = signs * math.sqrt(variance * (n - 1) / n)
    assert utils.var_check(lambda _: spread, sigma, n) is accepted


@pytest.mark.parametrize(
    ("freedom", "statistic", "p"),
    [(1, 3.841, 0.05), (1, 0.0158, 0.9), (2, 5.991, 0.05), (5, 1.145, 0.95), (5, 11.07, 0.05), (20, 31.41, 0.05),
     (20, 10.85, 0.95), (100, 77.93, 0.95), (100, 124.34, 0.05)],
)  # fmt: skip
def test_p_values_are_those_of_tables(freedom: int, statistic: float, p: float) -> None:
    assert _upper_gamma(freedom / 2, statistic / 2) == pytest.approx(p, rel=2e-3)


def test_no_difference_is_certain() -> None:
    assert _upper_gamma(2.0, 0.0) == 1.0 and _upper_gamma(2.0, 800.0) < 1e-300


def test_counts_in_intervals_and_of_values() -> None:
    samples = np.array([0.0, 0.5, 1.0, 1.0, 1.9, 7.0])
    p, counts, expected = utils.chi_square_check(lambda _: samples, [(0, 1), (1, 2)], [0.5, 0.5], 6)
    assert counts.tolist() == [2, 3] and expected.tolist() == [3, 3]
    assert p == pytest.approx(0.5637, rel=1e-3)  # χ² of 1/3, one degree
    _, counts, _ = utils.chi_square_check(lambda _: samples, [1.0, 7.0], [0.5, 0.5], 6)
    assert counts.tolist() == [2, 1]
    for buckets, probs in (([], []), ([1, 2], [1.0])):
        with pytest.raises(ValueError, match=f"{len(buckets)} buckets for {len(probs)} probabilities"):
            utils.chi_square_check(lambda _: samples, buckets, probs, 6)


def test_buckets_of_equal_probability() -> None:
    buckets, probs = utils.gen_buckets_probs_with_ppf(lambda q: 10 * q, 4)
    assert buckets == [(0, 2.5), (2.5, 5), (5, 7.5), (7.5, 10)] and probs == [0.25] * 4


def test_enough_of_several_samples_must_follow() -> None:
    fair, unfair = np.arange(100) % 2, np.zeros(100)
    drawn = iter([unfair, unfair, fair, unfair, unfair] * 2)
    p_values = utils.verify_generator(lambda _: next(drawn), [0, 1], [0.5, 0.5], 100)
    assert p_values.count(1.0) == 1 and len(p_values) == 5
    with pytest.raises(AssertionError, match="of which 1 exceed"):
        utils.verify_generator(lambda _: next(drawn), [0, 1], [0.5, 0.5], 100, success_rate=0.3)
    tilted = np.repeat([0, 1], [42, 58])  # χ² 2.56, p 0.11
    for alpha, passes in ((0.1, True), (0.12, False)):
        if passes:
            utils.verify_generator(
                lambda _: tilted, [0, 1], [0.5, 0.5], 100, nrepeat=1, success_rate=1, alpha=alpha
            )
        else:
            with pytest.raises(AssertionError):
                utils.verify_generator(
                    lambda _: tilted, [0, 1], [0.5, 0.5], 100, nrepeat=1, success_rate=1, alpha=alpha
                )
