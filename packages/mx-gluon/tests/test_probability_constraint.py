# SPDX-License-Identifier: Apache-2.0
"""Constraints: what they allow, and what their errors name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_gluon.probability import constraint as c
from mx_ndarray import nd
from mx_symbol import sym


@pytest.mark.parametrize(
    ("kind", "allowed", "refused"),
    [
        (c.Real(), [-1.0, np.inf], [np.nan]),
        (c.Boolean(), [0.0, 1.0], [0.5, np.nan]),
        (c.Interval(-1, 2), [-1.0, 2.0], [-1.1, 2.1, np.nan]),
        (c.OpenInterval(-1, 2), [0.0], [-1.0, 2.0]),
        (c.HalfOpenInterval(-1, 2), [-1.0], [2.0]),
        (c.UnitInterval(), [0.0, 1.0], [-0.1, 1.1]),
        (c.IntegerInterval(0, 3), [0.0, 3.0], [0.5, 4.0]),
        (c.IntegerOpenInterval(0, 3), [1.0], [0.0, 3.0, 1.5]),
        (c.IntegerHalfOpenInterval(0, 3), [0.0], [3.0, 1.5]),
        (c.GreaterThan(2), [2.1], [2.0]),
        (c.GreaterThanEq(2), [2.0], [1.9]),
        (c.LessThan(2), [1.9], [2.0]),
        (c.LessThanEq(2), [2.0], [2.1]),
        (c.IntegerGreaterThan(2), [3.0], [2.0, 3.5]),
        (c.IntegerGreaterThanEq(2), [2.0], [1.0, 2.5]),
        (c.IntegerLessThan(2), [1.0], [2.0, 0.5]),
        (c.IntegerLessThanEq(2), [2.0], [3.0, 0.5]),
        (c.Positive(), [0.1], [0.0]),
        (c.NonNegative(), [0.0], [-0.1]),
        (c.PositiveInteger(), [1.0], [0.0, 1.5]),
        (c.NonNegativeInteger(), [0.0], [-1.0, 0.5]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, c.Constraint) else "",
)
def test_numbers(kind: c.Constraint, allowed: list[float], refused: list[float]) -> None:
    for value in allowed:
        assert kind.check(value) == value
        assert kind.check(nd.array([value])).asscalar() == np.float32(value)
    for value in refused:
        with pytest.raises(ArgumentError, match=f"value: expected .*, got {value}"):
            kind.check(value)
        with pytest.raises(ArgumentError, match=r"it: expected .* at index \(1,\)"):
            kind.check(nd.array([allowed[0], value], dtype="float64"), "it")


def test_bounds_are_arrays() -> None:
    between = c.Interval(nd.array([0.0, 1.0]), 2.0)
    between.check(nd.array([0.5, 1.5]))
    with pytest.raises(ArgumentError, match=r"expected >= \[0.0, 1.0\] and <= 2.0, got 0.5 at index \(1,\)"):
        between.check(0.5)


def test_vectors_and_matrices() -> None:
    c.Simplex().check(nd.array([[0.25, 0.75], [1.0, 0.0]]))
    for wrong in ([0.5, 0.6], [1.5, -0.5]):
        with pytest.raises(ArgumentError, match="with a sum of 1 along the last axis"):
            c.Simplex().check(nd.array([[0.25, 0.75], wrong]))
    lower = nd.array([[1.0, 0.0], [2.0, -3.0]])
    c.LowerTriangular().check(lower)
    c.LowerCholesky().check(nd.abs(lower))
    with pytest.raises(ArgumentError, match=r"positive numbers on it, got -3.0 at index \(1, 1\)"):
        c.LowerCholesky().check(lower)
    with pytest.raises(ArgumentError, match=r"zeros above its diagonal, got 2.0 at index \(0, 1\)"):
        c.LowerTriangular().check(lower.T)
    definite = nd.array([[[2.0, 1.0], [1.0, 2.0]]])
    c.PositiveDefinite().check(definite)
    for wrong_matrix in (definite - 2.0, lower.expand_dims(0)):
        with pytest.raises(ArgumentError, match="a symmetric matrix with positive eigenvalues"):
            c.PositiveDefinite().check(wrong_matrix)
    with pytest.raises(ArgumentError, match=r"got an array of shape \(2,\)"):
        c.PositiveDefinite().check(nd.ones((2,)))


def test_parts() -> None:
    both = c.Cat([c.Positive(), c.Boolean()], axis=1, lengths=[2, 1])
    both.check(nd.array([[0.5, 2.0, 1.0]]))
    with pytest.raises(ArgumentError, match=r"along axis 1: > 0; 0 or 1, got 0.5 at index \(0, 2\)"):
        both.check(nd.array([[0.5, 2.0, 0.5]]))
    with pytest.raises(ArgumentError, match=r"an extent of 3 along axis 1, got shape \(1, 2\)"):
        both.check(nd.ones((1, 2)))
    with pytest.raises(ArgumentError, match=r"lengths: expected 2 numbers, got \[1\]"):
        c.Cat([c.Positive(), c.Boolean()], lengths=[1])
    single = c.Cat([c.Positive(), c.Boolean()])
    single.check(nd.array([2.0, 1.0]))
    with pytest.raises(ArgumentError, match=r"got 2.0 at index \(1,\)"):
        single.check(nd.array([2.0, 2.0]))
    rows = c.Stack([c.Simplex(), c.Positive()])
    rows.check(nd.array([[0.5, 0.5], [2.0, 3.0]]))
    with pytest.raises(ArgumentError, match=r"got 0.5 at index \(0, 0\)"):
        rows.check(nd.array([[0.5, 0.6], [2.0, 3.0]]))
    with pytest.raises(ArgumentError, match="an extent of 2 along axis 0"):
        rows.check(nd.ones((3, 2)))


def test_symbols_are_not_checked() -> None:
    value: Any = sym.Variable("x")
    assert c.Positive().check(value) is value
