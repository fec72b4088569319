# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

import mx_ndarray
from mx_core import services
from mx_core.context import Context, cpu
from mx_core.errors import ArgumentError, MXUnsafeReadWarning
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


@pytest.mark.long
def test_a_wait_ends_while_another_thread_keeps_writing() -> None:
    """It waits for what was pushed before it, not for what comes between two looks for signals."""
    factor, written = nd.ones((150, 150)), nd.zeros((150, 150))
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


def read_before_others_write(size: int, place: Context, gate: threading.Event, read: Any) -> Any:
    """What a read finds that begins while 7 is still to be written, and before 200 other numbers are pushed."""
    x, sevens, found = nd.zeros((size,), ctx=place), nd.full((1 << 15,), 7), list[Any]()
    mx_ndarray.waitall()
    late = nd.test_gated(sevens)  # too large to run at the call
    x[:] = late[:size].as_in_context(place)
    before = services.engine().pending
    reader = threading.Thread(target=lambda: found.append(read(x)))
    reader.start()
    end = time.monotonic() + 20
    while services.engine().pending == before and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(0.1)  # until it has a place in the queue, which it takes after it counts as pending
    for number in range(200):
        x[:] = number
    gate.set()
    reader.join()
    return found[0]


@pytest.mark.parametrize("size", [1, 100, 1 << 15])
def test_a_read_is_of_the_moment_of_the_call(size: int, open_gate: threading.Event) -> None:
    assert (read_before_others_write(size, cpu(), open_gate, nd.NDArray.asnumpy) == 7).all()


def test_a_scalar_is_of_the_moment_of_the_call(open_gate: threading.Event) -> None:
    assert read_before_others_write(1, cpu(), open_gate, nd.NDArray.asscalar) == 7


@pytest.mark.long
def test_a_read_from_a_device_is_of_the_moment_of_the_call(
    device: Context, open_gate: threading.Event
) -> None:
    assert (read_before_others_write(100, device, open_gate, nd.NDArray.asnumpy) == 7).all()


def test_a_failure_that_is_still_to_come_is_raised_by_the_read(open_gate: threading.Event) -> None:
    x = nd.test_fails(nd.test_gated(nd.ones((1 << 15,)))[:2])
    timer = threading.Timer(0.05, open_gate.set)
    timer.start()
    with pytest.raises(ZeroDivisionError, match="computed by test_fails"):
        x.asnumpy()
    with pytest.warns(MXUnsafeReadWarning):
        assert x.asnumpy().shape == (2,)
    timer.join()


@pytest.mark.parametrize("size", [1, 1 << 23])
def test_a_handler_of_a_signal_may_write_what_is_being_read(size: int, open_gate: threading.Event) -> None:
    x = nd.zeros((size,))
    x[:1] = nd.test_gated(nd.ones((1 << 15,)))[:1]
    found = list[float]()

    def write(*_: object) -> None:
        open_gate.set()
        x[:1] = 5
        found.append(x[:1].asscalar())

    before = signal.signal(signal.SIGALRM, write)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        value = x.asnumpy()[0]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == [5] and value in (1, 5)


def test_a_handler_of_a_signal_may_wait_for_everything_while_its_thread_reads(
    open_gate: threading.Event,
) -> None:
    x = nd.test_gated(nd.ones((1 << 15,)))[:1]
    ended = list[bool]()

    def wait(*_: object) -> None:
        open_gate.set()
        mx_ndarray.waitall()
        ended.append(True)

    before = signal.signal(signal.SIGALRM, wait)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert x.asscalar() == 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended == [True]


def test_an_interrupt_in_a_number_is_passed_on() -> None:
    class Number:
        def __index__(self) -> int:
            raise KeyboardInterrupt

        def __float__(self) -> float:
            return 1.0

        item = 1  # numbers of other libraries have one

    with pytest.raises(KeyboardInterrupt):
        nd.ones((1,), dtype="int64") + Number()
