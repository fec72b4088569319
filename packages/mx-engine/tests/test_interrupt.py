# SPDX-License-Identifier: Apache-2.0
"""What becomes of pending operations when Ctrl-C ends the process: each in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import mx_engine
from mx_core.errors import EngineShutdownError

pytestmark = pytest.mark.timeout(120)

MAKERS = ["mx_engine.create(workers=2)", "services.engine()"]


def interrupt(code: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Runs a program and presses Ctrl-C when it has printed `now`: the seconds it still took."""
    program = textwrap.dedent(
        """
        import signal, time, mx_engine
        from mx_core import services
        signal.signal(signal.SIGINT, signal.default_int_handler)
        """
    ) + textwrap.dedent(code)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        time.sleep(0.1)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        return time.monotonic() - sent, subprocess.CompletedProcess(
            process.args, process.returncode, out, err
        )


@pytest.mark.parametrize("how", MAKERS)
def test_what_has_not_begun_is_cancelled(how: str) -> None:
    seconds, done = interrupt(
        f"""
        engine = {how}
        variable = engine.new_variable()
        def step(i):
            time.sleep(0.3)
            print("ended", i, flush=True)
        for i in range(100):
            engine.push(lambda i=i: step(i), writes=[variable])
        print("now", flush=True)
        engine.wait_for_all()
        """
    )
    assert seconds < 8  # 30 s of work, for which an exit would wait 10 s; 0.3 s of it had begun
    assert done.returncode == -signal.SIGINT
    ended = done.stdout.splitlines()
    assert ended == [f"ended {i}" for i in range(len(ended))]
    found = re.search(r"(\d+) operations not begun and cancelled", done.stderr)
    assert found is not None, done.stderr
    assert len(ended) + int(found[1]) in (99, 100)  # nothing else began; what ran has ended, or been given up
    assert "KeyboardInterrupt" in done.stderr
    assert "never observed" not in done.stderr


def test_what_runs_for_long_is_given_up() -> None:
    seconds, done = interrupt(
        """
        engine = mx_engine.create(workers=1)
        engine.push(lambda: time.sleep(1000), name="sleeper")
        print("now", flush=True)
        time.sleep(1000)
        """
    )
    assert seconds < 8
    assert done.returncode == -signal.SIGINT
    assert "mx: 1 operation had not finished at exit; given up; running: sleeper" in done.stderr


@pytest.mark.parametrize("how", MAKERS)
def test_ctrl_c_while_a_process_finishes_its_work_ends_that(how: str) -> None:
    seconds, done = interrupt(
        f"""
        engine = {how}
        variable = engine.new_variable()
        engine.push(lambda: {{}}["seen before"])
        engine.drain(None)
        for i in range(100):
            engine.push(lambda: time.sleep(0.1), writes=[variable])
        print("now", flush=True)
        """
    )
    assert seconds < 8
    assert done.returncode == 0
    assert "operations not begun and cancelled" in done.stderr
    assert "1 failure was never observed:\n  KeyError: 'seen before'" in done.stderr


def test_an_interrupt_that_was_caught_does_not_cancel() -> None:
    _, done = interrupt(
        """
        engine = mx_engine.create(workers=1)
        variable = engine.new_variable()
        for i in range(4):
            engine.push(lambda i=i: (time.sleep(0.4), print("ran", i, flush=True)), writes=[variable])
        print("now", flush=True)
        try:
            engine.wait_for_all()
        except KeyboardInterrupt:
            pass
        """
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "ran 3"
    assert done.stderr == ""


def test_failures_that_the_cancellation_makes_are_not_told() -> None:
    _, done = interrupt(
        """
        engine = mx_engine.create(workers=1)
        inner = engine.new_variable()
        def outer():
            time.sleep(0.3)
            engine.push(lambda: None, writes=[inner])
            engine.wait_for_variable(inner)
        engine.push(outer)
        print("now", flush=True)
        time.sleep(1000)
        """
    )
    assert "never observed" not in done.stderr


def test_whoever_waits_for_what_is_cancelled_is_told() -> None:
    engine = mx_engine.create(workers=1)
    first, second = engine.new_variable(), engine.new_variable()
    gate, ran = threading.Event(), list[str]()
    engine.push(lambda: gate.wait(20), writes=[first])
    for variable in (first, second):
        engine.push(
            lambda: ran.append("skipped"), writes=[variable], reads=[] if variable is first else [first]
        )
    engine.push(lambda: ran.append("kept"), writes=[first], property="no_skip")
    engine.cancel("the reason")
    gate.set()
    for variable in (first, second, first):
        with pytest.raises(EngineShutdownError, match="the reason"):
            engine.wait_for_variable(variable)
    assert engine.drain(10)
    assert ran == ["kept"]
    assert engine.unobserved() == (0, [])
