# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import mx_ndarray
from mx_core import operators, services
from mx_core.errors import ArgumentError
from mx_core.operator import OperatorProperty, param, required
from mx_ndarray import _core, nd

started: list[int] = []


@param
class _NumberParam:
    """Which one it is."""

    number: int = required("its number")


class Noted(OperatorProperty):
    """Notes when it runs."""

    name = "test_noted"
    Param = _NumberParam  # type: ignore[assignment]

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        started.append(p.number)
        return (np.array(inputs[0]),)


@pytest.mark.timeout(60)
@pytest.mark.skipif(services.engine().is_naive, reason="a naive engine has nothing to choose from")
def test_larger_priorities_start_first(open_gate: threading.Event) -> None:
    started.clear()
    with operators.temporary(Noted):
        held = nd.test_gated(nd.ones((1 << 15,)))  # the only thread for Python kernels waits here
        source = nd.ones((1 << 15,))  # too large to run at the push
        results = []
        for number, urgency in enumerate((0, -5, 7, 3)):
            with mx_ndarray.priority(urgency):
                results.append(nd.test_noted(source, number=number))
        open_gate.set()
        for result in (held, *results):
            result.wait_to_read()
    assert started == [2, 3, 0, 1]


def test_blocks_nest_and_belong_to_their_thread() -> None:
    seen: list[int] = []
    outer = mx_ndarray.priority(4)
    with outer:
        with mx_ndarray.priority(-1), outer:
            pass
        thread = threading.Thread(target=lambda: seen.append(_core.set_priority(0)))
        thread.start()
        thread.join()
        seen.append(_core.set_priority(4))
    seen.append(_core.set_priority(0))
    assert seen == [0, 4, 0]


@pytest.mark.parametrize("wrong", [1.5, "high", 2**31, -(2**31) - 1])
def test_what_is_no_priority(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="32 bits"):
        mx_ndarray.priority(wrong)
