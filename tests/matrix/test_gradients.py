# SPDX-License-Identifier: Apache-2.0
"""Every declared gradient against differences of the operator's reference, in float64."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.operator import gradient_of, refusal
from mx_core.testing.case import Case
from mx_core.testing.operator import check_gradient
from testkit import applications, oracle

#: whose gradient is another than their own by definition, or needs inputs of a kind that is not drawn
LEFT_OUT = oracle.STOPPED | oracle.REPLACED | oracle.SYMMETRIC | {"_linalg_syevd"}
SLOW_APPLICATIONS = 8
#: applications until one has a gradient that can be compared
ATTEMPTS = 12
#: operators that no application in float64 with a derivative is drawn of
NOT_COMPARED = frozenset(
    (
        "Custom",  # a user's Python operator has to be registered first
        "_backward_Custom",
        "_backward_not_offered",  # raises by definition
        "Embedding",  # its first input counts rows, and its gradient is a backward operator of whole numbers
        "_backward_Embedding",
        "ROIPooling",  # corners that are drawn select nothing
        "_backward_Cast",  # the type to go back to is not float64
        "_multi_mp_adamw_update",  # one of its inputs is float32
        "_multi_mp_lamb_update",
        "amp_multicast",  # gives the narrowest or widest type
        "multi_mp_sgd_mom_update",
        "_scatter_set_nd",  # indices that are drawn collide or lie outside
        "_slice_assign",
    )
)


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


def check(name: str, number: int) -> int | None:
    """Elements compared in one application; None when the declaration says that it has no gradient."""
    case = applications.make(operators.get(name), number, "float64", most=24, smooth=True)
    if case is None:
        return 0
    gradient = gradient_of(case.op, case.params)
    if gradient.is_zero or any(step.op == refusal.NAME for step in gradient.nodes):
        return None
    if not in_float64(case):
        return 0
    if getattr(case.params, "output_mean_var", False):
        return 0  # by definition nothing comes through its moments
    if "mod" in name and (case.params.scalars == (0.0,) or any((x == 0).any() for x in case.inputs)):
        return 0  # the remainder of a division by 0 is 0, its gradient is not
    with np.errstate(all="ignore"):
        return check_gradient(case, case.reference(), rtol=1e-4, atol=1e-5, seed=number, kinks=True)


def judge(name: str, numbers: Iterable[int], enough: int) -> None:
    """Asserts that gradients were compared in some applications, or that the declaration says there is none."""
    compared, declared_none = 0, False
    for number in numbers:
        found = check(name, number)
        declared_none = declared_none or found is None
        compared += bool(found)
        if compared == enough:
            break
    if declared_none and not compared:
        return
    assert compared or name in NOT_COMPARED, "no gradient was compared"


@pytest.mark.parametrize("name", differentiable())
def test_gradients_are_right(name: str) -> None:
    """One application that has a gradient."""
    judge(name, range(applications.SEED, applications.SEED + ATTEMPTS), 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", differentiable())
def test_gradients_are_right_often(name: str) -> None:
    """Many applications."""
    judge(name, range(1000, 1000 + SLOW_APPLICATIONS), SLOW_APPLICATIONS)
