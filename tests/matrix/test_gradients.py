# SPDX-License-Identifier: Apache-2.0
"""Every declared gradient against differences of the operator's reference, in float64."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.operator import gradient_of, refusal
from mx_core.testing.case import Case
from mx_core.testing.operator import check_gradient

sys.path.insert(0, str(Path(__file__).parent))
import applications

HOME = Path(__file__).parents[2] / "packages" / "mx-operators" / "tests" / "test_gradients.py"
_spec = importlib.util.spec_from_file_location("recorded_gradients", HOME)
assert _spec is not None and _spec.loader is not None
recorded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)

#: whose gradient is another than their own by definition, or needs inputs of a kind that is not drawn
LEFT_OUT = recorded.STOPPED | recorded.REPLACED | recorded.SYMMETRIC | {"_linalg_syevd"}
SLOW_APPLICATIONS = 8


def differentiable() -> list[str]:
    """Operators with a gradient of their own."""
    found = []
    for name in applications.all_operators():
        op = operators.get(name)
        if not (op.is_loss or op.dynamic_output or name in LEFT_OUT):
            found.append(name)
    return found


def in_float64(case: Case) -> bool:
    """Whether no number is rounded."""
    inputs = {dtypes.name(spec.dtype) for spec in case.specs} & dtypes.FLOATING
    return inputs | {dtypes.name(spec.dtype) for spec in case.outputs} == {"float64"}


def check(name: str, number: int) -> bool:
    """Checks one application; False when there is none with a gradient, or no element had a derivative."""
    case = applications.make(operators.get(name), number, "float64", most=24, smooth=True)
    if case is None or not in_float64(case):
        return False
    gradient = gradient_of(case.op, case.params)
    if gradient.is_zero or any(step.op == refusal.NAME for step in gradient.nodes):
        return False
    if getattr(case.params, "output_mean_var", False):
        return False  # by definition nothing comes through its moments
    if "mod" in name and (case.params.scalars == (0.0,) or any((x == 0).any() for x in case.inputs)):
        return False  # the remainder of a division by 0 is 0, its gradient is not
    with np.errstate(all="ignore"):
        compared = check_gradient(case, case.reference(), rtol=1e-4, atol=1e-5, seed=number, kinks=True)
    return compared > 0


@pytest.mark.parametrize("seed", [applications.SEED])
def test_gradients_are_right(seed: int) -> None:
    """One application of each operator."""
    assert sum(check(name, seed) for name in differentiable()) > 200


@pytest.mark.slow
@pytest.mark.parametrize("name", differentiable())
def test_gradients_are_right_often(name: str) -> None:
    for number in range(1000, 1000 + SLOW_APPLICATIONS):
        check(name, number)
