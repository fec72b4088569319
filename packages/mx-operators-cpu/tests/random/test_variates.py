# SPDX-License-Identifier: Apache-2.0
"""Numbers by rejection are those of the references, whatever the number of threads, and have the right moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_core.operator import ReferenceContext

STREAM = (0x1234567890ABCDEF, 77)
#: parameters, mean, variance
DRAWS: list[tuple[str, dict[str, Any], float, float]] = [
    ("gamma", {"alpha": 0.3, "beta": 2.0}, 0.6, 1.2),
    ("gamma", {"alpha": 7.5, "beta": 0.5}, 3.75, 1.875),
    ("poisson", {"lam": 0.0}, 0, 0),
    ("poisson", {"lam": 3.5}, 3.5, 3.5),
    ("poisson", {"lam": 250.0}, 250, 250),
    ("negative_binomial", {"k": 4, "p": 0.3}, 28 / 3, 280 / 9),
    ("negative_binomial", {"k": 2, "p": 1.0}, 0, 0),
    ("generalized_negative_binomial", {"mu": 6.0, "alpha": 0.5}, 6, 24),
    ("generalized_negative_binomial", {"mu": 20.0, "alpha": 0.0}, 20, 20),
]


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), DRAWS)
def test_one_distribution(
    rng: np.random.Generator, name: str, attrs: dict[str, Any], mean: float, variance: float
) -> None:
    for shape, dtype in (((3001,), "float32"), ((7, 3), "float64"), ((5,), "float16"), ((0,), "float32")):
        plans.verify(
            f"_random_{name}", {**attrs, "shape": shape, "dtype": dtype}, [], random=STREAM, threads=2
        )
    plans.verify(f"_random_{name}_like", attrs, [plans.array(rng, (4, 5))], random=STREAM)


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), DRAWS)
def test_moments(name: str, attrs: dict[str, Any], mean: float, variance: float) -> None:
    """Within five deviations of the mean of that many numbers; the variance within a tenth."""
    op, n = operators.get(f"_random_{name}"), 200_000
    p = op.Param.parse({**attrs, "shape": (n,), "dtype": "float64"}, op=op.name)
    drawn = [np.empty(n), np.empty(n)]
    for threads, out in enumerate(drawn, 1):
        plans.run(plans.plan_of(plans.call_of(op, p, [])), [], [out], [plans.WRITE], scalars=p.scalars,
                  random_key=5, random_offset=0, threads=threads)  # fmt: skip
    np.testing.assert_array_equal(*drawn)
    assert abs(drawn[0].mean() - mean) <= 5 * np.sqrt(variance / n)
    assert abs(drawn[0].var() - variance) <= 0.1 * variance


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_parameters_in_arrays(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    unit = rng.random((2, 5)) * 0.9 + 0.05
    kind = np.dtype(dtype)
    cases = {
        "uniform": (-unit, unit), "normal": (unit, unit), "exponential": (unit,), "gamma": (unit * 3, unit),
        "poisson": (unit * 30,), "negative_binomial": (unit * 9, unit),
        "generalized_negative_binomial": (unit * 9, unit),
    }  # fmt: skip
    for name, parameters in cases.items():
        given = [x.astype(kind) for x in parameters]
        for result in ("float32", "float64", "bfloat16"):
            attrs = {"shape": shape, "dtype": result}
            plans.verify(f"_sample_{name}", attrs, given, random=STREAM, threads=2)


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 700)])
def test_classes_by_weight(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    weights = rng.random((4, 9)).astype(np.float32)
    weights[:, 3] = 0
    for data in (weights, weights[0], weights.astype(np.float64)):
        for prob in (False, True):
            attrs = {"shape": shape, "get_prob": prob, "dtype": dtype}
            plans.verify("_sample_multinomial", attrs, [data], random=STREAM, threads=2)


def test_frequencies_of_classes() -> None:
    op, weights = operators.get("_sample_multinomial"), np.array([[3.0, 0.0, 0.0, 1.0]])
    call = plans.call_of(op, op.Param.parse({"shape": (40_000,)}, op=op.name), [weights])
    drawn = np.zeros((1, 40_000), np.int32)
    plans.run(
        plans.plan_of(call), [weights], [drawn], [plans.WRITE], random_key=3, random_offset=0, threads=2
    )
    np.testing.assert_allclose(np.bincount(drawn[0], minlength=4) / 40_000, [0.75, 0, 0, 0.25], atol=0.011)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.0, 0.0], "expected a finite sum > 0 of probabilities in row 1"),
        ([1.0, -0.5], "expected finite probabilities ≥ 0, got -0.5 in row 1"),
        ([np.nan, 1.0], "expected finite probabilities ≥ 0, got nan in row 1"),
        ([np.inf, 1.0], "expected finite probabilities ≥ 0, got inf in row 1"),
        ([1e308, 1e308], "expected a finite sum > 0 of probabilities in row 1"),
    ],
)
def test_what_is_no_distribution_of_classes(row: list[float], message: str) -> None:
    op, weights = operators.get("_sample_multinomial"), np.array([[1.0, 2.0], row, [1.0, 1.0]])
    p = op.Param.parse({"shape": (4,)}, op=op.name)
    plan = plans.plan_of(plans.call_of(op, p, [weights]))
    with pytest.raises(ArgumentError, match=message):
        plans.run(plan, [weights], [np.zeros((3, 4), np.int32)], [plans.WRITE], random_key=3, random_offset=0)
    with pytest.raises(ArgumentError, match=message), np.errstate(over="ignore"):
        op.reference(p, [weights], ReferenceContext())


@pytest.mark.parametrize(("name", "attrs", "message"), [
    ("_random_gamma", {"alpha": 0.0}, "alpha: expected"), ("_random_gamma", {"beta": np.inf}, "beta: expected"),
    ("_random_poisson", {"lam": -1.0}, "lam: expected"), ("_random_negative_binomial", {"k": 0}, "k: expected"),
    ("_random_negative_binomial", {"p": 1.5}, "p: expected"),
    ("_random_generalized_negative_binomial", {"mu": np.nan}, "mu: expected"),
    ("_random_poisson", {"lam": -3.0}, "lam: expected finite numbers ≥ 0, got -3$"),
    ("_random_negative_binomial", {"p": 1.5}, "p: expected finite numbers > 0, ≤ 1, got 1.5$"),
])  # fmt: skip
def test_wrong_parameters(name: str, attrs: dict[str, Any], message: str) -> None:
    op = operators.get(name)
    p = op.Param.parse({**attrs, "shape": (3,)}, op=name)
    with pytest.raises(ArgumentError, match=message):
        plans.run(
            plans.plan_of(plans.call_of(op, p, [])), [], [np.zeros(3, np.float32)], [1], scalars=p.scalars
        )


def test_wrong_parameters_in_arrays() -> None:
    op = operators.get("_sample_normal")
    inputs = [np.zeros(3), np.array([1.0, -1.0, 2.0])]
    call = plans.call_of(op, op.Param.parse({}, op=op.name), inputs)
    with pytest.raises(ArgumentError, match="sigma: expected finite numbers ≥ 0"):
        plans.run(plans.plan_of(call), inputs, [np.zeros(3, np.float32)], [plans.WRITE])
