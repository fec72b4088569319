# SPDX-License-Identifier: Apache-2.0
"""Measurements of an engine on this machine, printed by `mx engine bench`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from mx_engine import _core
from mx_engine._core import Engine

__all__ = ["NATIVE", "chain", "figures", "independent", "nothing", "round_trip"]

#: Graphs of empty native operations.
NATIVE = ("independent", "one variable", "random graph")


def nothing() -> None:
    """An operation that costs only what the engine costs."""


def independent(engine: Engine, operations: int) -> None:
    """Pushes empty Python operations that have nothing to do with each other."""
    for _ in range(operations):
        engine.push(nothing)
    engine.wait_for_all()


def chain(engine: Engine, operations: int) -> None:
    """Pushes empty Python operations that write one variable."""
    variable = engine.new_variable()
    for _ in range(operations):
        engine.push(nothing, writes=(variable,))
    engine.wait_for_variable(variable)


def round_trip(engine: Engine, operations: int) -> None:
    """Pushes empty Python operations and waits for each."""
    variable = engine.new_variable()
    for _ in range(operations):
        engine.push(nothing, writes=(variable,))
        engine.wait_for_variable(variable)


def _median(repeats: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeats))


def _seconds(run: Callable[[Engine, int], None], engine: Engine, operations: int) -> float:
    start = time.perf_counter()
    run(engine, operations)
    return time.perf_counter() - start


def figures(engine: Engine, operations: int = 100_000, repeats: int = 5) -> Iterator[tuple[str, float, str]]:
    """Measures an engine; medians.

    Parameters
    ----------
    engine : Engine
        Idle meanwhile but for this.
    operations : int
        Native operations per graph; a tenth of them from Python.
    repeats : int
        How often each is measured.

    Yields
    ------
    name : str
    value : float
    unit : str
        `M/s`: millions of operations a second, construction of the variables included; `us`:
        microseconds per operation.
    """
    capsule = engine.capsule
    for name in NATIVE:
        seconds = _median(repeats, partial(_core.run_empty, capsule, name, operations))
        yield f"native, {name}", operations / seconds / 1e6, "M/s"
    inline = _median(repeats, lambda: _core.run_empty(capsule, "one variable", operations, inline=True))
    yield "native, inline", inline / operations * 1e6, "us"
    yield "native, push and wait", _median(repeats, lambda: _core.hand_over(capsule, 1000)) * 1e6, "us"
    few = max(1, operations // 10)
    for name, run in (("independent", independent), ("one variable", chain), ("push and wait", round_trip)):
        seconds = _median(repeats, partial(_seconds, run, engine, few))
        yield f"Python, {name}", seconds / few * 1e6, "us"
