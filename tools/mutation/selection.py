# SPDX-License-Identifier: Apache-2.0
"""A pytest plug-in: records what each test covers and how long it takes, or runs chosen tests in a given order."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

ADDRESS_SPACE = 16 << 30  # bytes; a mutant may ask for all there is
RECORD, CHOSEN = "MX_MUTATION_RECORD", "MX_MUTATION_TESTS"  # files to write to and to read

_passed: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Lines that run from here on are of this test."""
    running = coverage.Coverage.current() if RECORD in os.environ else None
    if running is not None:
        running.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up the seconds of a test's phases; one that fails or is skipped cannot judge mutants."""
    if report.outcome != "passed":
        _failed.add(report.nodeid)
    _passed[report.nodeid] = _passed.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Writes the seconds of the tests that passed."""
    if RECORD in os.environ:
        passed = {name: seconds for name, seconds in _passed.items() if name not in _failed}
        Path(os.environ[RECORD]).write_text(json.dumps(passed))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the chosen tests, in the order in which they are named."""
    if CHOSEN not in os.environ:
        return
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = {name: i for i, name in enumerate(json.loads(Path(os.environ[CHOSEN]).read_text()))}
    places = {item: place for item in items if (place := _place(item.nodeid, order)) is not None}
    config.hook.pytest_deselected(items=[item for item in items if item not in places])
    items[:] = sorted(places, key=places.__getitem__)


def _place(name: str, order: dict[str, int]) -> int | None:
    """Where a test, its function or its file is named."""
    function = name.partition("[")[0]
    return next((order[k] for k in (name, function, function.partition("::")[0]) if k in order), None)
