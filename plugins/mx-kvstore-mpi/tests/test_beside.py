# SPDX-License-Identifier: Apache-2.0
"""What is done beside the thread of communication, and what a leader does meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_mpi", reason="mx-kvstore-mpi is not installed")

from mx_core.errors import MXNetError
from mx_kvstore_mpi import hierarchy
from mx_kvstore_mpi.beside import Beside
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.hierarchy import Hierarchy
from mx_kvstore_mpi.links import LinkedSums


def test_what_was_asked_for_runs_in_order_and_errors_are_raised() -> None:
    beside = Beside("test")
    done: list[int] = []

    def fail() -> None:
        raise ConnectionError("worker 1 is gone")

    first, lost, last = (
        beside.begin(lambda: done.append(1)),
        beside.begin(fail),
        beside.begin(lambda: done.append(2)),
    )
    first()
    with pytest.raises(ConnectionError, match="worker 1 is gone"):
        lost()
    last()
    assert done == [1, 2]


class Window:
    """Memory of two workers that give the same, as the leader sees it."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self.told = told

    def sum(self, code: int, sends: list[Any], receives: list[Any] | None) -> bool:
        self.told("sum")
        for send, receive in zip(sends, receives or [], strict=True):
            receive.view(np.float32)[:] = 2 * send.view(np.float32)
        return True

    def give(self, places: list[int], arrays: list[Any]) -> bool:
        self.told("give")
        return True

    def stop(self) -> None:
        pass


class Links:
    """Another host, which gives ten times as much; each exchange ends when `go` is released."""

    broken = ""

    def __init__(self, told: Callable[[str], None]) -> None:
        self.told, self.go, self.fails, self.stopped = told, threading.Semaphore(0), False, False

    def sum(self, code: int, sends: list[Any], receives: list[Any]) -> bool:
        assert self.go.acquire(timeout=30.0)
        if self.stopped:
            return False
        if self.fails:
            self.broken = "the connection to worker 2 has ended"
            return False
        for send, receive in zip(sends, receives, strict=True):
            receive.view(np.float32)[:] = 10 * send.view(np.float32)
        self.told("exchanged")
        return True

    def stop(self) -> None:
        self.stopped = True
        self.go.release()


def leader(told: Callable[[str], None]) -> tuple[Hierarchy, Links]:
    fault, links = Fault(), Links(told)
    window: Any = Window(told)
    return Hierarchy([[0, 1], [2, 3]], 0, window, LinkedSums(links, fault.check), fault), links  # type: ignore[arg-type]


def test_the_next_piece_is_added_while_leaders_exchange_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchy, "BUCKET", 16)
    steps: list[str] = []
    second = threading.Event()

    def told(what: str) -> None:
        steps.append(what)
        if steps.count("sum") == 2:
            second.set()

    sums, links = leader(told)
    arrays = [(np.arange(10, dtype=np.float32), np.empty(10, np.float32)),
              (np.ones(3, np.float32), np.empty(3, np.float32)), (np.ones(0, np.float32), np.empty(0, np.float32))]  # fmt: skip
    done: list[int] = []
    thread = threading.Thread(target=lambda: sums.several(arrays, done.append))
    thread.start()
    assert second.wait(30.0), "the second piece waits for the first one"
    assert "exchanged" not in steps
    for _ in range(5):
        links.go.release()
    thread.join(30.0)
    sums.stop()
    assert done == [0, 1, 2]
    for send, receive in arrays:
        assert (receive == 20 * send).all()
    assert steps.count("give") == steps.count("sum") == 5


def test_a_connection_that_ends_is_told() -> None:
    sums, links = leader(lambda what: None)
    links.fails = True
    links.go.release()
    with pytest.raises(ConnectionError, match="the connection to worker 2 has ended"):
        sums.alone(np.ones(5, np.float32), np.empty(5, np.float32))
    sums.stop()


def test_what_is_asked_for_after_the_end_does_not_wait() -> None:
    sums, _ = leader(lambda what: None)
    sums.stop()
    with pytest.raises(MXNetError, match="connections to other hosts were stopped"):
        sums.alone(np.ones(5, np.float32), np.empty(5, np.float32))
