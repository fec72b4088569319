# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from mx_core.cached import cached_property


class Slow:
    """Its value takes as long as `compute` does."""

    def __init__(self, compute: Any) -> None:
        self.compute = compute

    @cached_property
    def value(self) -> list[int]:
        """What was computed."""
        self.compute()
        return [1]


def test_it_is_computed_once() -> None:
    counted: list[int] = []
    slow = Slow(lambda: counted.append(1))
    assert slow.value is slow.value and counted == [1]
    assert Slow.value.__doc__ == "What was computed." and isinstance(Slow.value, cached_property)


def test_all_threads_get_the_same_value() -> None:
    barrier = threading.Barrier(3)
    slow, found = Slow(lambda: barrier.wait(10)), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(value is slow.value for value in found)


def test_an_error_is_not_kept() -> None:
    failing = Slow(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        _ = failing.value
    failing.compute = lambda: None
    assert failing.value == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: Slow(lambda: (begun.set(), end.wait(30))).value)
    thread.start()
    assert begun.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if Slow(lambda: None).value == [1] else 1)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        thread.join()
