# SPDX-License-Identifier: Apache-2.0
"""Operators that only these tests need, and an engine without leftovers after each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mx_ndarray
from mx_core import operators
from mx_core.errors import MXNetError
from mx_core.operator import Operator
from mx_core.testing.sample_operators import Counter, Fails, Positive


class Doubled(Operator):
    """2 · data, computed in Python."""

    name = "test_doubled"

    def gradient(self, p: Any, g: Any) -> Any:
        return g.op("_mul_scalar", (g.out_grad(),), scalar=2)

    def inplace(self, p: Any) -> Any:
        return ((0, 0),)

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (inputs[0] * 2,)


class Mode(Operator):
    """data · 1 in training, data · 0 otherwise."""

    name = "test_mode"
    needs_train_flag = True

    def gradient(self, p: Any, g: Any) -> Any:
        return (g.out_grad(),)

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (inputs[0] * float(ctx.is_train),)


class Pair(Operator):
    """(3 · data, 5 · data); its gradient reads both out-gradients at once."""

    name = "test_pair"
    results = ("three", "five")

    def gradient(self, p: Any, g: Any) -> Any:
        left = g.op("_mul_scalar", (g.out_grad("three"),), scalar=3)
        right = g.op("_mul_scalar", (g.out_grad("five"),), scalar=5)
        return g.op("elemwise_add", (*left, *right))

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return inputs[0] * 3, inputs[0] * 5


OPERATORS = (Fails, Doubled, Counter, Mode, Pair, Positive)


@pytest.fixture(autouse=True)
def test_operators() -> Iterator[None]:
    with operators.temporary(*OPERATORS):
        yield
        try:
            mx_ndarray.waitall()
        except (ZeroDivisionError, MXNetError):
            pass
