# SPDX-License-Identifier: Apache-2.0
"""Random programs of arrays, views, writes, gradients and failures, beside the same programs of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mx_ndarray import NDArray, autograd, nd, waitall

ROWS, COLUMNS = 4, 3
SMALL = st.integers(-3, 3)
PLACE = st.integers(0, 10**6)


class Programs(RuleBasedStateMachine):
    """Pairs of arrays of both libraries; a view shares memory with its array in both.

    All values stay small whole numbers, so float32 is exact.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[NDArray, Any]] = []
        self.failed: list[NDArray] = []

    def pick(self, place: int) -> tuple[NDArray, Any]:
        return self.pairs[place % len(self.pairs)]

    def keep(self, ours: NDArray, theirs: Any) -> None:
        if len(self.pairs) == 12:
            self.pairs.pop(0)
        self.pairs.append((ours, theirs))

    @initialize(values=st.lists(SMALL, min_size=ROWS * COLUMNS, max_size=ROWS * COLUMNS))
    def begin(self, values: list[int]) -> None:
        theirs = np.array(values, np.float32).reshape(ROWS, COLUMNS)
        self.pairs.append((nd.array(theirs), theirs.copy()))

    @rule(rows=st.integers(0, 5), value=SMALL)
    def make(self, rows: int, value: int) -> None:
        self.keep(nd.full((rows, COLUMNS), value), np.full((rows, COLUMNS), value, np.float32))

    @rule(place=PLACE, start=st.integers(0, 5), stop=st.integers(0, 5))
    def view_rows(self, place: int, start: int, stop: int) -> None:
        ours, theirs = self.pick(place)
        start, stop = sorted((min(start, len(theirs)), min(stop, len(theirs))))
        if start < stop:  # what is empty has no memory to share
            self.keep(ours[start:stop], theirs[start:stop])

    @rule(place=PLACE)
    def copy(self, place: int) -> None:
        ours, theirs = self.pick(place)
        self.keep(ours.copy(), theirs.copy())

    @rule(one=PLACE, other=PLACE, operator=st.sampled_from(["add", "maximum", "minimum"]))
    def compute(self, one: int, other: int, operator: str) -> None:
        (a, x), (b, y) = self.pick(one), self.pick(other)
        if x.shape == y.shape:
            made = {
                "add": lambda: a + b,
                "maximum": lambda: nd.maximum(a, b),
                "minimum": lambda: nd.minimum(a, b),
            }
            values = getattr(np, operator)(x, y)
            if np.abs(values).max(initial=0) < 1000:
                self.keep(made[operator](), values)

    @rule(place=PLACE, value=SMALL)
    def add_in_place(self, place: int, value: int) -> None:
        ours, theirs = self.pick(place)
        if np.abs(theirs).max(initial=0) < 1000:
            ours += value
            theirs += np.float32(value)

    @rule(place=PLACE, row=st.integers(0, 5), value=SMALL)
    def write_row(self, place: int, row: int, value: int) -> None:
        ours, theirs = self.pick(place)
        if row < len(theirs):
            ours[row] = value
            theirs[row] = value

    @rule(into=PLACE, source=PLACE, start=st.integers(0, 3))
    def write_part(self, into: int, source: int, start: int) -> None:
        (a, x), (b, y) = self.pick(into), self.pick(source)
        if len(y) and start + len(y) <= len(x):
            a[start : start + len(y)] = b
            x[start : start + len(y)] = y.copy()

    @rule(place=PLACE)
    def write_out(self, place: int) -> None:
        ours, theirs = self.pick(place)
        nd.negative(ours, out=ours)
        np.negative(theirs, out=theirs)

    @rule(place=PLACE)
    def differentiate(self, place: int) -> None:
        ours, theirs = self.pick(place)
        leaf = ours.copy()
        leaf.attach_grad()
        with autograd.record():
            y = (leaf * leaf + leaf[0:1]).sum() if len(theirs) else (leaf * leaf).sum()
        y.backward()
        slope = 2 * theirs
        if len(theirs):
            slope[0] += len(theirs)
        np.testing.assert_array_equal(leaf.grad.asnumpy(), slope)

    @rule()
    def fail(self) -> None:
        self.failed.append(nd.test_fails(nd.ones((ROWS, COLUMNS))) + 1)

    @precondition(lambda self: self.failed)
    @rule(row=st.integers(0, 1))
    def look_at_a_failure(self, row: int) -> None:
        with pytest.raises(ZeroDivisionError):
            self.failed.pop()[row : row + 2].asnumpy()

    @rule()
    def drop(self) -> None:
        if len(self.pairs) > 1:
            self.pairs.pop(0)

    @rule()
    def wait(self) -> None:
        if not self.failed:
            waitall()

    @rule(place=PLACE)
    def read(self, place: int) -> None:
        ours, theirs = self.pick(place)
        np.testing.assert_array_equal(ours.asnumpy(), theirs)

    @invariant()
    def shapes_agree(self) -> None:
        assert all(ours.shape == theirs.shape for ours, theirs in self.pairs)

    def teardown(self) -> None:
        for ours, theirs in self.pairs:
            np.testing.assert_array_equal(ours.asnumpy(), theirs)
        for array in self.failed:
            with pytest.raises(ZeroDivisionError):
                array.wait_to_read()
        waitall()


@pytest.mark.parametrize(
    "programs", [40, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_programs(programs: int) -> None:
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=programs, stateful_step_count=50, deadline=None,
            suppress_health_check=list(HealthCheck), derandomize=True,
        ),
    )  # fmt: skip
