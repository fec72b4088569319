# SPDX-License-Identifier: Apache-2.0
"""Functions written for NumPy arrays as expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import expression as X
from mx_operators_cuda.codegen.numpy_tracing import trace_numpy


def check(function: Any, n_scalars: int, scalars: tuple[float, ...]) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    e = trace_numpy(function, 2, n_scalars)
    for found, wanted in zip(X.evaluate(e, [x, y], scalars), function(x, y, *scalars), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_functions_of_numpy() -> None:
    check(lambda x, y: (np.sqrt(np.abs(x)) + np.sign(y) / 2, np.where(x > y, x * y, 0) - 1), 0, ())
    check(lambda x, y: (np.clip(x, -1, 1) ** 2, -np.maximum(x, y), np.exp(np.minimum(x, 0))), 0, ())


@pytest.mark.parametrize("limit", [-1.0, 0.3])
@pytest.mark.parametrize("other", [-1.0, 0.1])
def test_decisions_by_scalars(limit: float, other: float) -> None:
    """One expression for every answer."""

    def function(x: Any, y: Any, a: Any, b: Any) -> Any:
        x = np.clip(x, -a, a) if a >= 0 else x
        total = x + y
        if b < 0:
            return total, x
        return np.clip(total, -b, b), x

    check(function, 2, (limit, other))


def test_what_is_equal_is_not_chosen() -> None:
    e = trace_numpy(lambda x, s: (x + 1 if s > 0 else 1 + x,), 1, 1)
    assert [step.opcode for step in e.instructions] == [X.Opcode.ADD]


def test_what_has_no_expression() -> None:
    with pytest.raises(TypeError, match=r"np\.cumsum has no expression"):
        trace_numpy(lambda x: (np.cumsum(x),), 1, 0)
    with pytest.raises(TypeError, match=r"np\.arcsin has no expression"):
        trace_numpy(lambda x: (np.arcsin(x),), 1, 0)

    def undecided(x: Any) -> Any:
        for i in range(20):
            x = x + i if x > i else x
        return (x,)

    with pytest.raises(TypeError, match="more than 8 decisions"):
        trace_numpy(undecided, 1, 0)
