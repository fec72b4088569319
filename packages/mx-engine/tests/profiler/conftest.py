# SPDX-License-Identifier: Apache-2.0
"""A fresh profiler for every test, and what tests look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mx_engine import profiler
from mx_engine.profiler import session


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts and ends without a recording."""
    yield
    profiler.stop()
    session.current().clear()
    profiler.set_config()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "profile.json"
    profiler.set_config(filename=str(target))
    return target


@pytest.fixture
def trace() -> Callable[[Path, str], list[dict[str, Any]]]:
    """The events of one phase of a trace file."""

    def events(path: Path, phase: str) -> list[dict[str, Any]]:
        return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == phase]

    return events


class Storage:
    """A storage manager with three events: one allocation of weights, one of nothing named, one release."""

    dropped = 0

    def __init__(self) -> None:
        self.capacity = 0

    def listen(self, capacity: int) -> None:
        self.capacity = capacity

    def events(self) -> list[tuple[int, int, int, int, int, int, str | None]]:
        return [
            (1000, 1, 0, 64, 64, 0, "weights"),
            (2000, 1, 0, 8, 72, 0, None),
            (3000, 1, 0, -64, 8, 64, None),
        ]

    def forget(self) -> None:
        """Nothing to forget."""


@pytest.fixture
def storage() -> Storage:
    return Storage()
