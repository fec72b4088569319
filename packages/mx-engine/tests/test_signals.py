# SPDX-License-Identifier: Apache-2.0
"""What a handler of a signal raises while native code makes a failure of an exception reaches the program."""

from __future__ import annotations

import pytest

from testkit.fresh import run

PROGRAM = """
import signal, sys
from mx_core import services

class Alarm(Exception):
    pass

class Said(Exception):  # a failure's text is what it says
    def __str__(self):
        {said}

def handler(*_):
    if sys.argv[1] == "once":
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    raise {kind}

signal.signal(signal.SIGUSR1, handler)
engine = services.engine()
variable = engine.new_variable()

def fail():
    raise Said

def failed():
    try:
        engine.push(fail, writes=[variable])
        engine.wait_for_variable(variable)
    except Said:
        return "the kernel's"
    return "none"

try:
    seen = failed()
    for _ in range(3):  # Python looks for what is pending at the end of a loop's turn
        pass
    print(seen)
except {kind}:
    print("the handler's")
"""
RINGS = "signal.raise_signal(signal.SIGUSR1); return ''"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["SystemExit", "Alarm", "KeyboardInterrupt", "GeneratorExit"])
@pytest.mark.parametrize("handler", ["set", "once"])
def test_it_is_raised_though_the_kernel_fails(kind: str, handler: str) -> None:
    done = run(PROGRAM.format(said=RINGS, kind=kind), handler, MXNET_ENGINE_TYPE="NaiveEngine")
    assert done.stdout == "the handler's\n", done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["Alarm", "SystemExit"])
def test_an_exception_that_cannot_be_shown_is_no_handler_s(kind: str) -> None:
    said = f"raise {kind}"
    done = run(PROGRAM.format(said=said, kind=kind), "set", MXNET_ENGINE_TYPE="NaiveEngine")
    assert done.stdout == "the kernel's\n", done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["SystemExit", "Alarm", "KeyboardInterrupt"])
def test_it_is_raised_though_it_comes_while_another_error_is_looked_at(kind: str) -> None:
    looks = """
from mx_core import signals
def look(real=signals._handlers):
    signals._handlers = real
    signal.raise_signal(signal.SIGUSR1)
    return real()
signals._handlers = look
"""
    program = PROGRAM.format(said="raise ValueError", kind=kind).replace(
        "try:\n    seen", f"{looks}\ntry:\n    seen"
    )
    done = run(program, "set", MXNET_ENGINE_TYPE="NaiveEngine")
    assert done.stdout == "the handler's\n", done.stdout + done.stderr


@pytest.mark.parametrize("ctrl_c", ["SIG_IGN", "SIG_DFL", "default_int_handler"])
def test_an_interrupt_of_another_signal_needs_no_ctrl_c(ctrl_c: str) -> None:
    set_ = f"signal.signal(signal.SIGINT, signal.{ctrl_c})\ntry:\n    seen"
    program = PROGRAM.format(said=RINGS, kind="KeyboardInterrupt").replace("try:\n    seen", set_)
    done = run(program, "set", MXNET_ENGINE_TYPE="NaiveEngine")
    assert done.stdout == "the handler's\n", done.stdout + done.stderr


LOOP = """
import random, signal, time
from mx_core import services

calls = 0

def handler(*_):
    global calls
    calls += 1
    raise {kind}

signal.signal(signal.SIGALRM, handler)
engine = services.engine()

def fail():
    raise ZeroDivisionError

def failed():
    variable = engine.new_variable()
    try:
        engine.push(fail, writes=[variable])
        engine.wait_for_variable(variable)
    except ZeroDivisionError:
        pass

def fail_until_called(before, end):  # a function: CPython 3.13.0 handles no exception at the jump of a loop within `try`
    while calls == before and time.monotonic() < end:
        failed()
    failed()

random.seed(0)
lost = 0
for _ in range(150):
    before, start = calls, time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0003, 0.003))
        fail_until_called(before, start + 10)
        lost += 1
    except {kind}:
        pass
print(lost)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["SystemExit", "TimeoutError", "KeyboardInterrupt"])
def test_none_is_lost_in_a_loop_of_failures(kind: str) -> None:
    done = run(LOOP.format(kind=kind), MXNET_ENGINE_TYPE="NaiveEngine")
    assert done.stdout == "0\n", done.stdout + done.stderr
