# SPDX-License-Identifier: Apache-2.0
"""Every kernel against its operator's reference: element types, shapes, requests, odd addresses.

Applications come from the declarations. The default run takes a sample, another one for another
MX_TEST_SEED; the slow run takes many.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from mx_core import dtypes, kernels, operators
from mx_core.testing.case import Case
from mx_core.testing.kernel import check_variant
from mx_core.testing.kernel_values import TOLERANCES
from testkit import applications

TYPES = (*applications.FLOATS, *applications.INTEGERS)
SLOW_APPLICATIONS = 12
#: applications of each element type, until one reaches a kernel
ATTEMPTS = 4
#: operators with a kernel that no application reaches: a user's Python operator has to be registered first, and
#: indices that are drawn for the other collide or lie outside
NOT_COMPARED = frozenset(("Custom", "_backward_Custom", "_scatter_set_nd"))


def tolerance(case: Case, dtype: str) -> tuple[float, float]:
    """Relative and absolute."""
    rtol, atol = TOLERANCES.get(dtype, (0.0, 0.0))
    return rtol, atol * applications.steepness(case)


def compare(name: str, number: int, dtype: str) -> int:
    """Compares all kernels on one application; how many comparisons were made."""
    op = operators.get(name)
    case = applications.make(op, number, dtype)
    if case is None:
        return 0
    names = {dtypes.name(spec.dtype) for spec in (*case.specs, *case.outputs)}
    coarsest = next((t for t in ("bfloat16", "float16", "float32", "float64") if t in names), dtype)
    made = 0
    for spec in kernels.candidates(op, "cpu"):
        if spec.variant != "reference":
            with np.errstate(all="ignore"):
                near = {coarsest: tolerance(case, coarsest)}
                made += len(check_variant(spec, case, coarsest, near, to_largest=True))
    return made


def has_kernel(name: str) -> bool:
    """Whether something besides the reference computes an operator on the CPU."""
    return any(spec.variant != "reference" for spec in kernels.candidates(operators.get(name), "cpu"))


WITH_KERNELS = [name for name in applications.all_operators() if has_kernel(name)]


def drawn_types(name: str) -> list[str]:
    """float32 and half of the others, which depend on the operator and the seed."""
    others = [dtype for dtype in TYPES if dtype != "float32"]
    return ["float32", *random.Random(f"{name} {applications.SEED}").sample(others, len(others) // 2)]


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_equal_references(name: str) -> None:
    """One application of some element types; more, and of all, where none of them reaches a kernel."""
    number = applications.SEED
    made = sum(compare(name, number, dtype) for dtype in drawn_types(name))
    while not made and number < applications.SEED + ATTEMPTS:
        made = sum(compare(name, number, dtype) for dtype in TYPES)
        number += 1
    assert made or name in NOT_COMPARED, "no kernel was compared"


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_equal_references_often(name: str) -> None:
    """Many applications."""
    numbers = range(1000, 1000 + SLOW_APPLICATIONS)
    made = sum(compare(name, number, dtype) for dtype in TYPES for number in numbers)
    assert made or name in NOT_COMPARED, "no kernel was compared"
