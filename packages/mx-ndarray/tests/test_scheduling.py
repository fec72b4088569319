# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import mx_ndarray
from mx_core.errors import ArgumentError
from mx_ndarray import _core, nd


def test_blocks_nest_and_belong_to_their_thread() -> None:
    seen: list[int] = []
    outer = mx_ndarray.priority(4)
    with outer:
        with mx_ndarray.priority(-1), outer:
            pass
        thread = threading.Thread(target=lambda: seen.append(_core.set_priority(0)))
        thread.start()
        thread.join()
        seen.append(_core.set_priority(4))
    seen.append(_core.set_priority(0))
    assert seen == [0, 4, 0]


@pytest.mark.parametrize("wrong", [1.5, "high", 2**31, -(2**31) - 1])
def test_what_is_no_priority(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="32 bits"):
        mx_ndarray.priority(wrong)


def test_a_wait_ends_while_another_thread_keeps_writing() -> None:
    """It waits for what was pushed before it, not for what comes between two looks for signals."""
    factor, written = nd.ones((400, 400)), nd.zeros((400, 400))
    end, running = time.monotonic() + 20, threading.Event()

    def write() -> None:
        while time.monotonic() < end and not running.is_set():
            for _ in range(200):
                nd.dot(factor, factor, out=written)
            factor.sum().asscalar()  # the pushes stay ahead, but not without end

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.3)
    written.asnumpy()
    late = time.monotonic() >= end
    running.set()
    writer.join()
    assert not late
