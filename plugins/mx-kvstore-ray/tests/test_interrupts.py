# SPDX-License-Identifier: Apache-2.0
"""No signal is lost while Ray starts, whatever becomes of the error that it makes there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_kvstore.processes import Stopped, Stops
from mx_kvstore_ray.interrupts import Interrupts

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def stops() -> Iterator[Stops]:
    before = {number: signal.signal(number, signal.default_int_handler) for number in NUMBERS}
    with Stops() as found:  # who runs the tests may have signals ignored
        yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def sent(number: int) -> None:
    signal.raise_signal(number)  # to this thread, whatever others there are
    time.sleep(10.0)


def swallowed(number: int) -> None:
    """As in a finalizer."""
    try:
        signal.raise_signal(number)
    except BaseException:
        return
    raise AssertionError("no error")


def native(number: int) -> None:
    """As Ray's native code."""
    try:
        signal.raise_signal(number)
    except BaseException as error:
        raise SystemError("returned a result with an exception set") from error


def executed(number: int) -> None:
    exec("signal.raise_signal(number)", globals(), {"number": number})


def taken(number: int) -> None:
    """As Ray, with a handler of its own."""
    signal.signal(number, lambda number, frame: sys.exit(number))
    swallowed(number)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("function", [sent, swallowed, native, executed, taken])
def test_a_signal_is_told_whatever_becomes_of_its_error(
    stops: Stops, number: signal.Signals, function: Callable[[int], None]
) -> None:
    noting, begun = signal.getsignal(number), time.monotonic()
    with pytest.raises(Stopped) as told:
        Interrupts(stops).call(lambda: function(number))
    assert told.value.number == number and time.monotonic() - begun < 5.0
    assert signal.getsignal(number) == noting
    with pytest.raises(Stopped):
        Interrupts(stops).call(lambda: pytest.fail("it was called after a stop"))


def test_the_exit_status_is_that_of_the_program(tmp_path: Path) -> None:
    """Also of one that is a module, at whose end Python asks whether the last text that it executed was interrupted."""
    program = """
import signal, sys
from mx_kvstore.processes import Stopped, Stops
from mx_kvstore_ray.interrupts import Interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
with Stops() as stops:
    try:
        Interrupts(stops).call(lambda: exec("signal.raise_signal(signal.SIGINT)"))
    except Stopped as error:
        sys.exit(128 + error.number)
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGINT


STUCK = """
import ctypes, signal, threading
from mx_kvstore.processes import Stops
from mx_kvstore_ray import interrupts

interrupts._PATIENCE = 0.5
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)

def stuck():
    library.pthread_mutex_lock(mutex)
    threading.Timer(0.5, print, ["stuck"], {"flush": True}).start()  # told once this thread has left Python
    library.pthread_mutex_lock(mutex)  # no signal ends this

with Stops() as stops:
    interrupts.Interrupts(stops).call(stuck)
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_native_code_that_does_not_return_is_left(number: signal.Signals) -> None:
    command = [sys.executable, "-c", STUCK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=30.0)
    assert process.returncode == 128 + number
    assert said == f"mx launch: stopped by {number.name}, while Ray did not return\n"


def test_only_the_first_signal_interrupts(stops: Stops) -> None:
    """What is cleared up behind it is not to be interrupted."""
    cleared = []

    def function() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleared.append(True)

    with pytest.raises(Stopped) as told:
        Interrupts(stops).call(function)
    assert told.value.number == signal.SIGINT and cleared


def test_without_a_signal_results_and_errors_pass(stops: Stops) -> None:
    before = signal.set_wakeup_fd(-1)
    assert Interrupts(stops).call(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        Interrupts(stops).call(lambda: 1 // 0)
    assert signal.set_wakeup_fd(before) == -1


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stops() as stops:
            Interrupts(stops).call(lambda: signal.raise_signal(signal.SIGHUP))
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
