# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from mx_core import operators
from mx_core.operator import Operator


class Passing(Operator):
    """An operator that comes and goes."""

    name = "test_passing"
    differentiable = False


def test_watchers_hear_of_operators_that_come_and_go() -> None:
    seen: list[bool] = []
    operators.watch(lambda: seen.append(operators.find("test_passing") is not None))
    try:
        with operators.temporary(Passing):
            assert seen == [True]
        assert seen == [True, False]
    finally:
        operators._watchers.pop()
