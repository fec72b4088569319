# SPDX-License-Identifier: Apache-2.0
"""Does a plan give the same when several runs of it overlap?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mx_core import _native, dtypes
from mx_core.errors import MXNetError
from mx_core.kernels import KernelSpec
from mx_core.testing import progress
from mx_core.testing.case import RANDOM_KEY, Array, Case
from mx_core.testing.concurrent import apart, enlarged, together
from mx_core.testing.kernel_runs import fresh, prepared, results_of, written
from mx_core.testing.kernel_values import TOLERANCES, Checked, tolerance_of, wide
from mx_core.testing.plan import buffer
from mx_core.testing.python_stops import lines_of, stopped_at

#: threads that run one kernel at the same time, how long each does in seconds, and fewest and most runs of each
THREADS, SECONDS, ROUNDS = 4, 0.01, (4, 100)
#: how often a run is stopped in the middle, how long that takes together and one stop at most, in milliseconds
STOPS, LIMIT, PATIENCE = 100, 150, 5
STOPPED = "stopped in the middle for another run"
#: lines of a kernel in Python before which it is stopped, at most
LINES = 32
#: seconds after which another thread may run Python: several threads are then in a kernel written in it
SWITCH = 1e-5


def check_threads(
    spec: KernelSpec, case: Case, dtype: str, tolerance: Mapping[str, tuple[float, float]] = TOLERANCES
) -> list[Checked]:
    """Runs of one kernel that overlap give what each gives alone.

    Runs have arrays of their own, with other values, as large as the operator takes them (`enlarged`). First several
    threads run the kernel at the same time. Then a run is stopped in the middle, the kernel runs on other
    arrays, and the first goes on: this finds on one processor, too, what two runs share. An operator that keeps a
    state between runs is left out; so is a kernel that declines the case.

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
    rtol, atol = tolerance_of(larger, dtype, tolerance)
    check = _Overlapping(
        made, cases, f"{larger.describe()}: {spec.variant}", partial(_equal, rtol=rtol, atol=atol)
    )
    done = [check.together()]
    if callable(made):
        done.append(check.stopped_at_lines())
    elif not case.op.dynamic_output:
        done.append(check.stopped())
    return [Checked(spec.variant, dtype, request) for request in done]


class _Overlapping:
    """Runs of a kernel on several cases."""

    def __init__(
        self,
        made: Any,
        cases: Sequence[Case],
        where: str,
        equal: Callable[[Sequence[Array], Sequence[Array]], bool],
    ) -> None:
        self._made, self._cases, self._where, self._equal = made, cases, where, equal
        self._alone = [results_of(made, one) for one in cases]

    def together(self) -> str:
        """Threads run it at the same time."""
        what = f"{THREADS} threads at the same time"
        progress.announce(self._where, what)
        start = perf_counter()
        results_of(self._made, self._cases[0])
        least, most = ROUNDS
        rounds = max(least, min(most, int(SECONDS / (perf_counter() - start))))
        with _switching(SWITCH):
            runs = together([partial(results_of, self._made, one) for one in self._cases], rounds)
        wrong = sum(
            not self._equal(found, wanted)
            for thread, wanted in zip(runs, self._alone, strict=True)
            for found in thread
        )
        self._check(wrong, f"{wrong} of {THREADS * rounds} runs by {THREADS} threads at the same time give")
        return what

    def stopped(self) -> str:
        """Runs are stopped in the middle, for others."""
        progress.announce(self._where, STOPPED)
        pairs = [fresh(one) for one in self._cases[:2]]
        one, other = (([buffer(x) for x in given], [buffer(x) for x in found]) for given, found in pairs)
        case = self._cases[0]
        rounds, differing = _native.interrupt_plan(
            self._made, one, other, case.is_train, case.params.scalars, RANDOM_KEY, STOPS, LIMIT, PATIENCE
        )
        wrong = sum(
            not self._equal(self._read(i, tensors), self._alone[i]) for i, tensors in _numbered(differing)
        )
        self._check(
            wrong, f"{wrong} of {rounds} runs that are stopped for another run in between, or these, give"
        )
        return STOPPED

    def stopped_at_lines(self) -> str:
        """Runs of a function are stopped before some of its lines, for another run in another thread."""
        progress.announce(self._where, STOPPED)
        run = partial(results_of, self._made, self._cases[0])
        total = lines_of(run)
        wrong = 0
        places = sorted({total * i // LINES for i in range(LINES)})
        for line in places:
            between: list[list[Array]] = []
            found = stopped_at(line, run, partial(self._run_between, between), PATIENCE / 1000)
            results = zip([found, *between], self._alone, strict=False)
            wrong += len(between) != 1 or not all(self._equal(x, alone) for x, alone in results)
        self._check(
            wrong,
            f"{wrong} of {len(places)} runs that are stopped for another run in between, or these, give",
        )
        return STOPPED

    def _run_between(self, kept: list[list[Array]]) -> None:
        with suppress(Exception):  # it keeps no results then
            kept.append(results_of(self._made, self._cases[1]))

    def _read(self, i: int, tensors: Sequence[bytes]) -> list[Array]:
        """Outputs and what is written of the inputs, from the bytes of all."""
        case = self._cases[i]
        specs = [*case.specs, *case.outputs]
        arrays = [
            np.frombuffer(data, dtypes.numpy_dtype(spec.dtype)).reshape(spec.shape)
            for spec, data in zip(specs, tensors, strict=True)
        ]
        n = len(case.inputs)
        return [*arrays[n:], *written(case, arrays[:n])]

    def _check(self, wrong: int, runs: str) -> None:
        assert not wrong, (
            f"{self._where}: {runs} other values than a run alone; a plan must not be written to while it runs"
        )


def _numbered(differing: Sequence[tuple[bool, list[bytes]]]) -> list[tuple[int, list[bytes]]]:
    """With the number of the case: 0 for the run that was stopped, 1 for the one in between."""
    return [(0 if was_stopped else 1, tensors) for was_stopped, tensors in differing]


@contextmanager
def _switching(seconds: float) -> Iterator[None]:
    """Threads take turns in Python after so many seconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _tried(spec: KernelSpec, case: Case, must_run: bool) -> tuple[Any, list[Array]]:
    """The plan and the results of a run; no results where it declines the case or refuses its values."""
    progress.announce(case.describe, spec.variant, "write")
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
