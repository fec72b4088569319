# SPDX-License-Identifier: Apache-2.0
"""Random programs on every engine type, against a sequential model; making engines."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_engine
from mx_core.errors import ArgumentError
from mx_engine.engines import TYPES

pytestmark = pytest.mark.timeout(60)

VARIABLES = 5


@dataclass(frozen=True)
class Step:
    number: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    kind: str
    fails: bool
    priority: int


class Lost(Exception):
    pass


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps = []
    for number in range(draw(st.integers(1, 25))):
        chosen = draw(st.lists(st.integers(0, VARIABLES - 1), unique=True))
        split = draw(st.integers(0, len(chosen)))
        steps.append(
            Step(
                number,
                tuple(chosen[:split]),
                tuple(chosen[split:]),
                draw(st.sampled_from(["sync", "sync", "async", "thread", "no_skip"])),
                draw(st.integers(0, 9)) == 0,
                draw(st.integers(-1, 1)),
            )
        )
    return steps


@dataclass
class State:
    """Values of the variables, as the operations leave them."""

    values: list[int] = field(default_factory=lambda: [0] * VARIABLES)

    def apply(self, step: Step) -> None:
        if step.fails:
            raise Lost(step.number)
        total = hash((step.number, *(self.values[i] for i in step.reads + step.writes)))
        for i in step.writes:
            self.values[i] = hash((total, i))


def model(steps: list[Step]) -> tuple[list[int], list[int | None]]:
    """Values and failures (number of the failed step) by sequential execution."""
    state, failures = State(), [None] * VARIABLES
    for step in steps:
        causes = [failures[i] for i in step.reads + step.writes if failures[i] is not None]
        cause = causes[0] if causes and step.kind != "no_skip" else None
        if cause is None:
            try:
                state.apply(step)
            except Lost:
                cause = step.number
        if cause is not None:
            for i in step.writes:
                if failures[i] is None:
                    failures[i] = cause
    return state.values, failures


def start(engine: mx_engine.Engine, state: State, step: Step, handles: list) -> None:
    reads = [handles[i] for i in step.reads]
    writes = [handles[i] for i in step.writes]
    options = {"priority": step.priority}

    def finish(done: mx_engine.Completion) -> None:
        try:
            state.apply(step)
        except Lost as error:
            done(error)
        else:
            done()

    if step.kind == "async":
        engine.push_async(finish, reads, writes, **options)
    elif step.kind == "thread":
        engine.push_async(
            lambda done: threading.Thread(target=finish, args=(done,)).start(),
            reads,
            writes,
            **options,
        )
    else:
        kind = "no_skip" if step.kind == "no_skip" else "normal"
        engine.push(lambda: state.apply(step), reads, writes, property=kind, **options)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", TYPES[:2])
@settings(max_examples=40, deadline=None)
@given(steps=programs())
def test_random_programs_equal_sequential_execution(name: str, workers: int, steps: list[Step]) -> None:
    engine, state = mx_engine.create(name, workers=workers), State()
    handles = [engine.new_variable() for _ in range(VARIABLES)]
    for step in steps:
        start(engine, state, step, handles)
    assert engine.drain(30)
    values, failures = model(steps)
    assert state.values == values
    for handle, failure in zip(handles, failures, strict=True):
        found = engine.variable_failure(handle)
        assert (found.args[0] if found else None) == failure
    engine.stop()
    if engine.unobserved()[0]:
        with pytest.raises(Lost):
            engine.wait_for_all()


@settings(max_examples=40, deadline=None)
@given(steps=programs())
def test_the_naive_engine_stops_at_the_first_failure(steps: list[Step]) -> None:
    engine, state = mx_engine.create("NaiveEngine"), State()
    handles = [engine.new_variable() for _ in range(VARIABLES)]
    done = 0
    for step in steps:
        try:
            start(engine, state, step, handles)
        except Lost as error:
            assert step.fails and error.args == (step.number,)
            break
        assert not step.fails
        done += 1
    assert state.values == model(steps[:done])[0]


def test_unknown_types_and_worker_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'Quick'; known: ThreadedEnginePerDevice"):
        mx_engine.create("Quick")
    with pytest.raises(ArgumentError, match="at least 1, got 0"):
        mx_engine.create(workers=0)


def test_the_environment_sets_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "3")
    assert mx_engine.create().workers == 3
    assert mx_engine.create(workers=2).workers == 2
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "many")
    with pytest.raises(ArgumentError, match=r"\[MXNET_CPU_WORKER_NTHREADS\].*'many'"):
        mx_engine.create()


def test_hundreds_of_engines_come_and_go() -> None:
    before = threading.active_count()
    for _ in range(300):
        engine, log = mx_engine.create(workers=2), []
        engine.push(lambda log=log: log.append(1), writes=[engine.new_variable()])
        engine.wait_for_all()
        assert log == [1]
        engine.stop()
    assert threading.active_count() <= before


def test_sticky_failures_are_raised_by_every_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_ERRORS", "sticky")
    engine = mx_engine.create(workers=2)
    a, b = engine.new_variable(), engine.new_variable()
    engine.push(lambda: 1 // 0, writes=(a,))
    engine.push(lambda: None, reads=(a,), writes=(b,))
    engine.drain(10)  # what comes after a delivery is not skipped any more
    for _ in range(2):
        for variable in (a, b):
            with pytest.raises(ZeroDivisionError):
                engine.wait_for_variable(variable)
    engine.push(lambda: None, writes=(a,))
    assert engine.wait_for_variable(a)
    assert engine.unobserved() == (0, [])


def test_openmp_threads_per_worker(engine: mx_engine.Engine, openmp: ctypes.CDLL) -> None:
    seen: list[int] = []
    for n in (3, 2):
        engine.num_omp_threads_per_worker = n
        engine.push(lambda: seen.append(openmp.omp_get_max_threads()))
        engine.wait_for_all()
        assert engine.num_omp_threads_per_worker == n
    assert seen == [3, 2]
    engine.num_omp_threads_per_worker = 0
    assert engine.num_omp_threads_per_worker == openmp.omp_get_max_threads()
