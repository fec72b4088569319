# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from mx_core import operators, plugins
from mx_core.errors import UnknownOperatorError
from mx_core.operator import Operator
from mx_core.operator.table import Table


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


def test_where_nearly_no_operators_are_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = Table()
    few.insert(Passing())
    monkeypatch.setattr(operators, "_table", few)
    monkeypatch.setattr(plugins, "missing_hint", lambda kind, name: "")
    with pytest.raises(
        UnknownOperatorError, match=r"is not registered\. Install mx-operators and mx-operators-cpu"
    ):
        operators.get("_ones")
    monkeypatch.setattr(plugins, "missing_hint", lambda kind, name: "Plug-in 'operators' was not loaded.")
    with pytest.raises(UnknownOperatorError, match="was not loaded.$"):
        operators.get("_ones")
