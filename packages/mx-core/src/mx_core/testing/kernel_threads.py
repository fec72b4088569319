# SPDX-License-Identifier: Apache-2.0
"""Does a plan give the same when several threads run it at the same time?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_core.kernels import KernelSpec
from mx_core.testing.case import Array, Case
from mx_core.testing.concurrent import apart, enlarged, together
from mx_core.testing.kernel_runs import prepared, results_of
from mx_core.testing.kernel_values import TOLERANCES, Checked, tolerance_of, wide

#: threads that run one plan at the same time, how long each does in seconds, and fewest and most runs of each
THREADS, SECONDS, ROUNDS = 4, 0.02, (8, 200)


def check_threads(
    spec: KernelSpec, case: Case, dtype: str, tolerance: Mapping[str, tuple[float, float]] = TOLERANCES
) -> list[Checked]:
    """Several threads run one plan at the same time, and each gets what a run alone gives.

    Each thread has arrays of its own, with other values, as large as the operator takes them (`enlarged`). An
    operator that keeps a state between runs is left out; so is a kernel that declines the case.

    Raises
    ------
    AssertionError  results differ by more than the tolerance: the plan is written to while it runs
    """
    if case.op.keeps_state:
        return []
    tried = [(larger, *_tried(spec, larger, larger is case)) for larger in enlarged(case, dtype)]
    larger, made, results = max(tried, key=lambda one: _distinct(one[2]))
    if not results:
        return []
    cases = [apart(larger, i) for i in range(THREADS)]
    alone = [results_of(made, one) for one in cases]
    start = perf_counter()
    results_of(made, cases[0])
    least, most = ROUNDS
    rounds = max(least, min(most, int(SECONDS / (perf_counter() - start))))
    runs = together([partial(results_of, made, one) for one in cases], rounds)
    rtol, atol = tolerance_of(larger, dtype, tolerance)
    equal = partial(_equal, rtol=rtol, atol=atol)
    wrong = sum(
        not equal(found, wanted) for thread, wanted in zip(runs, alone, strict=True) for found in thread
    )
    assert not wrong, (
        f"{larger.describe()}: {spec.variant}: {wrong} of {THREADS * rounds} runs by {THREADS} threads at the same "
        "time give other values than a run alone; a plan must not be written to while it runs"
    )
    return [Checked(spec.variant, dtype, f"{THREADS} threads at the same time")]


def _tried(spec: KernelSpec, case: Case, must_run: bool) -> tuple[Any, list[Array]]:
    """The plan and the results of a run; no results where it declines the case or refuses its values."""
    made = prepared(spec, case)
    try:
        return made, [] if made is None else results_of(made, case)
    except MXNetError:
        if must_run:
            raise
        return None, []


def _distinct(results: Sequence[Array]) -> int:
    """How many different values there are: results that are all zero show no mistake."""
    arrays = [wide(x) for x in results]
    return sum(np.unique(x[np.isfinite(x)]).size for x in arrays)


def _equal(found: Sequence[Array], wanted: Sequence[Array], rtol: float, atol: float) -> bool:
    for x, y in zip(found, wanted, strict=True):
        if x.tobytes() == y.tobytes():
            continue
        x, y = wide(x), wide(y)
        largest = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
        if x.shape != y.shape or not np.allclose(x, y, rtol, atol * largest, equal_nan=True):
            return False
    return True
