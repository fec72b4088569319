# SPDX-License-Identifier: Apache-2.0
"""Scratch memory between operations: never two at once, named ones side by side, growth, release."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import context, services
from mx_core.errors import ArgumentError
from mx_storage import temp_space

pytestmark = pytest.mark.timeout(60)
pytest.importorskip("mx_engine")


@pytest.fixture
def engine() -> Iterator[Any]:
    made = services.engine()
    yield made
    made.wait_for_all()


def test_operations_that_share_nothing_else_do_not_meet_in_it(engine: Any) -> None:
    space = temp_space("shared")
    wrong: list[int] = []

    def work(mark: int, size: int) -> None:
        scratch = np.frombuffer(space.get(size), np.uint8)
        scratch[:] = mark
        threading.Event().wait(0.0005)
        if not (scratch == mark).all():
            wrong.append(mark)

    source = random.Random(3)
    outputs = [engine.new_variable() for _ in range(5)]
    for i in range(100):
        mark, size = i % 256, source.randrange(1, 5000)
        engine.push(lambda mark=mark, size=size: work(mark, size), writes=[outputs[i % 5], space.variable])
    engine.wait_for_all()
    assert not wrong
    assert space.nbytes < 5000


def test_several_names_are_several_pieces_at_once(engine: Any) -> None:
    a, b = temp_space("a"), temp_space("b")
    assert temp_space("a") is a
    seen: list[Any] = []

    def work() -> None:
        left, right = (np.frombuffer(space.get(1000), np.uint8) for space in (a, b))
        left[:], right[:] = 1, 2
        seen.append((int(left.sum()), int(right.sum()), left.ctypes.data % 64, right.ctypes.data % 64))

    engine.push(work, writes=[a.variable, b.variable])
    engine.wait_for_all()
    assert seen == [(1000, 2000, 0, 0)]


def test_without_a_name_spaces_come_in_turn(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_CPU_TEMP_COPY", "3")
    spaces = [temp_space() for _ in range(6)]
    assert len(set(map(id, spaces))) == 3 and spaces[:3] == spaces[3:]
    monkeypatch.setenv("MXNET_CPU_TEMP_COPY", "0")
    assert temp_space() is temp_space(), "one at least"


def test_it_grows_keeps_and_is_released(engine: Any) -> None:
    space = temp_space("growing")
    before = services.storage("cpu").stats().bytes_in_use
    for size in (100, 5000, 10):
        engine.push(lambda size=size: space.get(size), writes=[space.variable])
    engine.wait_for_all()
    assert space.nbytes == 5000
    assert services.storage("cpu").holders()["temp space growing"] == 5000
    space.release()
    engine.wait_for_all()
    assert space.nbytes == 0 and services.storage("cpu").stats().bytes_in_use == before


def test_it_is_refused_outside_of_operations_and_for_devices(engine: Any) -> None:
    with pytest.raises(ArgumentError, match="in an operation that writes"):
        temp_space("outside").get(1)
    with pytest.raises(ArgumentError, match="expected memory of the host, got gpu"):
        temp_space("x", context.gpu())
    space = temp_space("read")
    engine.push(lambda: space.get(1), reads=[space.variable])
    with pytest.raises(ArgumentError, match="read: expected to be called in an operation that writes"):
        engine.wait_for_all()
    started, queued, got = threading.Event(), threading.Event(), []

    def read() -> None:
        started.set()
        queued.wait(30)
        got.append(space.get(1))

    engine.push(read, reads=[space.variable])
    assert started.wait(30)
    engine.push(lambda: got.append(space.get(2).nbytes), writes=[space.variable])
    queued.set()
    with pytest.raises(ArgumentError, match="read: expected to be called in an operation that writes"):
        engine.wait_for_all()
    assert got == [2], "a writer that waits does not let a reader in"
    space = temp_space("negative")
    engine.push(lambda: space.get(-1), writes=[space.variable])
    with pytest.raises(ArgumentError, match="at least 0, got -1"):
        engine.wait_for_all()
