# SPDX-License-Identifier: Apache-2.0
"""Draws follow their distributions: moments within five standard errors, and the shape of counts."""

from __future__ import annotations

from math import exp, factorial
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.errors import ArgumentError
from mx_core.operator import infer_types

N = 40_000

#: operator, parameters, mean, variance
CASES = [
    ("gamma", {"alpha": 0.3, "beta": 2.0}, 0.6, 1.2),
    ("gamma", {"alpha": 1.0, "beta": 1.0}, 1.0, 1.0),
    ("gamma", {"alpha": 7.5, "beta": 0.5}, 3.75, 1.875),
    ("poisson", {"lam": 0.0}, 0.0, 0.0),
    ("poisson", {"lam": 0.7}, 0.7, 0.7),
    ("poisson", {"lam": 9.5}, 9.5, 9.5),
    ("poisson", {"lam": 12.0}, 12.0, 12.0),
    ("poisson", {"lam": 4000.0}, 4000.0, 4000.0),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25),
    ("negative_binomial", {"k": 2, "p": 1.0}, 0.0, 0.0),
    ("generalized_negative_binomial", {"mu": 5.0, "alpha": 0.5}, 5.0, 17.5),
    ("generalized_negative_binomial", {"mu": 5.0, "alpha": 0.0}, 5.0, 5.0),
    ("exponential", {"lam": 2.0}, 0.5, 0.25),
]


def has_moments(x: Any, mean: float, variance: float) -> None:
    assert abs(x.mean() - mean) <= 5 * np.sqrt(variance / x.size)
    fourth = ((x - x.mean()) ** 4).mean()
    assert abs(x.var() - variance) <= 5 * np.sqrt(max(fourth - variance**2, 0) / x.size) + 1e-12


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), CASES)
def test_moments(run: Any, name: str, attrs: dict[str, Any], mean: float, variance: float) -> None:
    drawn = run(f"_random_{name}", [], shape=(N,), dtype="float64", **attrs)[0]
    has_moments(drawn, mean, variance)
    like = run(f"_random_{name}_like", [np.zeros((200, N // 200))], **attrs)[0]
    np.testing.assert_array_equal(like.ravel(), drawn)
    arrays = [np.array([value, value], np.float64) for value in attrs.values()]
    both = run(f"_sample_{name}", arrays, shape=(N,))[0]
    assert both.shape == (2, N)
    for row in both:
        has_moments(row, mean, variance)
    if variance:
        assert (both[0] != both[1]).any()


@pytest.mark.parametrize("lam", [3.0, 11.0])
def test_counts_have_poisson_probabilities(run: Any, lam: float) -> None:
    drawn = run("_random_poisson", [], shape=(N,), dtype="float64", lam=lam)[0]
    assert (drawn == np.floor(drawn)).all() and drawn.min() >= 0
    for k in range(25):
        expected = exp(-lam) * lam**k / factorial(k)
        assert abs((drawn == k).mean() - expected) <= 5 * np.sqrt(expected / N) + 1 / N


def test_gamma_of_shape_1_is_exponential(run: Any) -> None:
    drawn = np.sort(run("_random_gamma", [], shape=(N,), dtype="float64")[0])
    distance = abs(1 - np.exp(-drawn) - (np.arange(N) + 0.5) / N).max()
    assert distance < 2 / np.sqrt(N)


def test_uniform_and_normal_by_element(run: Any) -> None:
    low, high = np.array([0.0, -3.0]), np.array([1.0, 5.0])
    drawn = run("_sample_uniform", [low, high], shape=(N,))[0]
    for row, a, b in zip(drawn, low, high, strict=True):
        assert row.min() >= a and row.max() < b
        has_moments(row, (a + b) / 2, (b - a) ** 2 / 12)
    drawn = run("_sample_normal", [low, high], shape=(N // 10, 10), dtype="float32")[0]
    assert drawn.dtype == np.float32 and drawn.shape == (2, N // 10, 10)
    for row, a, b in zip(drawn, low, high, strict=True):
        has_moments(row.astype(np.float64), a, b * b)


def test_an_element_depends_on_its_counter_alone(run: Any) -> None:
    few = run("_sample_poisson", [np.array([3.0, 40.0])])[0]
    more = run("_sample_poisson", [np.array([3.0, 40.0, 1e6])])[0]
    np.testing.assert_array_equal(few, more[:2])


@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("_random_gamma", [], {"alpha": 0.0}),
        ("_random_gamma", [], {"beta": float("nan")}),
        ("_random_poisson", [], {"lam": -1.0}),
        ("_random_poisson", [], {"lam": float("inf")}),
        ("_random_negative_binomial", [], {"p": 0.0}),
        ("_random_generalized_negative_binomial", [], {"alpha": -1.0}),
        ("_sample_normal", [np.zeros(2), np.array([1.0, -1.0])], {}),
        ("_sample_negative_binomial", [np.ones(1), np.array([1.5])], {}),
        ("_sample_gamma", [np.array([np.inf]), np.ones(1)], {}),
        ("_sample_multinomial", [np.zeros((1, 3))], {}),
        ("_sample_multinomial", [np.array([2.0, -1.0])], {}),
        ("_sample_multinomial", [np.array([[0.5, np.nan]])], {"get_prob": True}),
    ],
)
def test_parameters_outside_their_domain(
    run: Any, name: str, inputs: list[Any], attrs: dict[str, Any]
) -> None:
    with pytest.raises(ArgumentError, match=rf"\[{name}\] \w+: expected"):
        run(name, inputs, **attrs)


@pytest.mark.parametrize(("dtype", "expected"), [({}, np.float32), ({"dtype": "float64"}, np.float64)])
def test_type_of_samples(run: Any, dtype: dict[str, str], expected: type) -> None:
    one = np.ones(2, np.float16)
    assert run("_sample_normal", [one, one], **dtype)[0].dtype == expected
    op = operators.get("_sample_normal")
    assert infer_types(op, op.Param(**dtype), [dtypes.code("float16")] * 2)[1] == (dtypes.code(expected),)
