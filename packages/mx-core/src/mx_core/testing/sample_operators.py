# SPDX-License-Identifier: Apache-2.0
"""Operators for tests of arrays, graphs and executors: one fails, one has a state, the shape of one shows late.

Register them for a test with `mx_core.operators.temporary`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.operator import Operator


class Fails(Operator):
    """Raises when it is computed."""

    name = "test_fails"
    differentiable = False

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        """Raises ZeroDivisionError."""
        raise ZeroDivisionError("computed by test_fails")


class Positive(Operator):
    """The positive elements: the shape of the result depends on the values."""

    name = "test_positive"
    differentiable = False
    dynamic_output = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Nothing is known before it runs."""

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        """Those elements."""
        return (inputs[0][inputs[0] > 0],)


class Counter(Operator):
    """Adds data to an auxiliary state and returns the state before."""

    name = "test_counter"
    differentiable = False
    auxiliaries = ("state",)

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        """The state, and the state after."""
        data, state = inputs
        return np.array(state), state + data
