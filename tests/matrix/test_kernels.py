# SPDX-License-Identifier: Apache-2.0
"""Every kernel against its operator's reference: element types, shapes, requests, odd addresses.

Applications come from the declarations. The default run takes a sample, another one for another
MX_TEST_SEED; the slow run takes many.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mx_core import dtypes, kernels, operators
from mx_core.testing.case import Case
from mx_core.testing.kernel import TOLERANCES, check_variant

sys.path.insert(0, str(Path(__file__).parent))
import applications

TYPES = (*applications.FLOATS, *applications.INTEGERS)
SLOW_APPLICATIONS = 12


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


@pytest.mark.parametrize("seed", [applications.SEED])
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_equal_references(dtype: str, seed: int) -> None:
    """One application of each operator."""
    done = sum(compare(name, seed, dtype) for name in applications.all_operators())
    assert done > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", applications.all_operators())
def test_kernels_equal_references_often(name: str) -> None:
    for dtype in TYPES:
        for number in range(1000, 1000 + SLOW_APPLICATIONS):
            compare(name, number, dtype)
