# SPDX-License-Identifier: Apache-2.0
"""Exit in mid-work, fork, Ctrl-C: each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from mx_engine.lifecycle import unobserved_text

pytestmark = pytest.mark.timeout(120)

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_pending_work_is_finished_at_exit(python: Python, how: str) -> None:
    done = python(
        f"""
        import time, mx_engine
        from mx_core import services
        engine = {how}
        variable = engine.new_variable()
        for i in range(5):
            engine.push(lambda i=i: (time.sleep(0.02), print("ran", i, flush=True)), writes=[variable])
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [f"ran {i}" for i in range(5)] + [""]
    assert done.stderr == ""


@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_failures_nobody_saw_are_told_once_at_exit(python: Python, how: str) -> None:
    done = python(
        f"""
        import mx_engine
        from mx_core import services
        engine = {how}
        a, b = engine.new_variable(), engine.new_variable()
        engine.push(lambda: 1 / 0, writes=[a], name="division")
        engine.push(lambda: None, reads=[a], writes=[b])
        engine.push(lambda: {{}}["seen"])
        engine.drain(10)
        """
    )
    assert done.returncode == 0
    assert done.stderr.startswith("mx: 2 failures were never observed:\n")
    assert "ZeroDivisionError: division by zero (in operator division, pushed at " in done.stderr


def test_failures_that_the_program_ends_with_are_not_told_again_at_exit(python: Python) -> None:
    """One cause makes many operations fail, and the program reads one of the arrays."""
    done = python(
        """
        import mx_engine
        from mx_core.errors import MXNetError
        engine = mx_engine.create(workers=2)
        def fail(text):
            raise MXNetError(text)
        variables = [engine.new_variable() for _ in range(4)]
        for variable in variables:
            engine.push(lambda: fail("worker 1 is lost"), writes=[variable])
        engine.push(lambda: fail("another cause"))
        try:
            engine.wait_for_variable(variables[0])
        except MXNetError as error:
            raise ValueError("the step failed") from error
        """
    )
    assert done.returncode == 1 and "ValueError: the step failed" in done.stderr
    news = done.stderr.partition("mx: ")[2]
    assert news.startswith("1 failure was never observed:\n  MXNetError: another cause"), done.stderr


@pytest.mark.parametrize(
    "end",
    [
        'raise MXNetError("is lost")',
        """
        try:
            raise MXNetError("worker 1 is lost")
        except MXNetError:
            raise ValueError("the step failed") from None
        """,
    ],
)
def test_failures_that_the_end_of_the_program_does_not_show_are_told(python: Python, end: str) -> None:
    """A part of their text is in the traceback, or an error that it leaves out has it."""
    done = python(
        f"""
        import mx_engine
        from mx_core.errors import MXNetError
        engine = mx_engine.create(workers=2)
        def fail():
            raise MXNetError("worker 1 is lost")
        engine.push(fail)
        engine.drain(10)
        {end}
        """
    )
    assert done.returncode == 1
    assert "mx: 1 failure was never observed:\n  MXNetError: worker 1 is lost" in done.stderr, done.stderr


@pytest.mark.parametrize("other", [False, True])
def test_failures_that_follow_from_the_programs_own_are_not_told_at_exit(python: Python, other: bool) -> None:
    done = python(
        f"""
        import mx_engine
        from mx_core.errors import MXNetError
        engine = mx_engine.create(workers=2)
        def fail(text):
            raise MXNetError(text)
        engine.push(lambda: fail("[KVStore] the program has failed"))
        if {other}:
            engine.push(lambda: fail("another cause"))
        engine.drain(10)
        """
    )
    told = "mx: 1 failure was never observed:\n  MXNetError: another cause"
    assert done.stderr.startswith(told) if other else done.stderr == ""


def test_an_operation_that_never_ends_does_not_keep_the_process(python: Python) -> None:
    start = time.monotonic()
    done = python(
        """
        import time, mx_engine
        engine = mx_engine.create(workers=2)
        variable = engine.new_variable()
        engine.push(lambda: time.sleep(1000), writes=[variable])
        engine.push(lambda: print("must not run"), writes=[variable])
        """,
        MX_SHUTDOWN_TIMEOUT="0.3",
    )
    assert time.monotonic() - start < 20
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "2 operations had not finished at exit" in done.stderr


@pytest.mark.parametrize("push", ["push(lambda: time", "push_async(lambda done: time"])
def test_an_operation_that_wakes_up_during_finalisation_is_harmless(python: Python, push: str) -> None:
    done = python(
        f"""
        import time, mx_engine
        engine = mx_engine.create(workers=2)
        engine.{push}.sleep(0.4))
        class Slow:
            sleep = time.sleep
            def __del__(self):
                self.sleep(0.8)
        slow = Slow()
        slow.cycle = slow
        """,
        MX_SHUTDOWN_TIMEOUT="0.1",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_threads_that_keep_pushing_do_not_hold_up_the_exit(python: Python, how: str) -> None:
    done = python(
        f"""
        import threading, time, mx_engine
        from mx_core import services
        from mx_core.errors import EngineShutdownError
        engine = {how}
        variable = engine.new_variable()
        def pusher():
            try:
                while True:  # there is always something pending, but never much
                    engine.push(lambda: time.sleep(0.005), writes=[variable])
                    while engine.pending > 10:
                        time.sleep(0.001)
            except EngineShutdownError:
                pass
        for _ in range(2):
            threading.Thread(target=pusher, daemon=True).start()
        def last():
            time.sleep(0.2)
            engine.push(lambda: print("pushed by an operation at exit", flush=True))
        engine.push(last)
        time.sleep(0.1)
        print(time.monotonic(), flush=True)
        """
    )
    end = time.monotonic()
    assert done.returncode == 0, done.stderr
    start, _, text = done.stdout.partition("\n")
    assert text == "pushed by an operation at exit\n"
    assert done.stderr == ""
    assert end - float(start) < 8


def test_variables_outlive_the_shutdown(python: Python) -> None:
    done = python(
        """
        import mx_engine
        engine = mx_engine.create(workers=1)
        kept = [engine.new_variable() for _ in range(10)]
        engine.push(lambda: None, writes=[kept[0]])
        class Late:
            def __init__(self):
                self.engine, self.kept = engine, kept
            def __del__(self):
                self.kept.clear()
                try:
                    self.engine.push(print)
                except Exception:
                    print("refused")
        late = Late()
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"


FORK = """
import os, sys, threading, time, mx_engine
from mx_core import services
engine = {how}
variable, log = engine.new_variable(), []
def step(i):
    time.sleep(0.005)
    log.append(i)
for i in range({pending}):
    engine.push(lambda i=i: step(i), writes=[variable])
child = os.fork()
# What was pushed before the fork is done on both sides, and both engines work.
assert log == list(range({pending})), log
engine.push(lambda: step("more"), writes=[variable])
engine.wait_for_all()
assert log[-1] == "more" and engine.variable_version(variable) == {pending} + 1
if child == 0:
    assert engine.workers == 1
    os._exit(7)
assert engine.workers == 2
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.long
@pytest.mark.parametrize("pending", [0, 1, 20])
@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_fork(python: Python, how: str, pending: int) -> None:
    done = python(FORK.format(how=how, pending=pending), MXNET_CPU_WORKER_NTHREADS="2")
    assert done.returncode == 7, done.stderr


def test_fork_while_other_threads_push(python: Python) -> None:
    done = python(
        """
        import os, sys, threading, mx_engine
        engine = mx_engine.create(workers=2)
        variable = engine.new_variable()
        stop = False
        def pusher():
            while not stop:
                engine.push(lambda: None, writes=[variable])
                engine.wait_for_variable(variable)
        threads = [threading.Thread(target=pusher, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(20):
            child = os.fork()
            if child == 0:
                own = engine.new_variable()
                ran = []
                engine.push(lambda: ran.append(1), writes=[own])
                os._exit(0 if engine.wait_for_variable(own, timeout=20) and ran == [1] else 1)
            _, status = os.waitpid(child, 0)
            if status:
                os._exit(2)
        stop = True
        for thread in threads:
            thread.join()
        sys.exit(3)
        """
    )
    assert done.returncode == 3, done.stderr


def test_fork_while_other_threads_push_with_the_gil_held(python: Python) -> None:
    done = python(
        """
        import os, sys, threading, time, mx_engine
        # Registered first, so called last, when the engine is closed already: gives the GIL to the
        # pushing threads, and needs it back.
        os.register_at_fork(before=lambda: time.sleep(0.05))
        engine = mx_engine.create(workers=2)
        variable = engine.new_variable()
        stop, pushed = False, [0, 0]
        def pusher(i):
            while not stop:
                engine.push(lambda: None, writes=[variable])
                pushed[i] += 1
                if pushed[i] % 100 == 0:
                    engine.wait_for_variable(variable)
        threads = [threading.Thread(target=pusher, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for i in range(10):
            child = os.fork()
            if child == 0:
                engine.push(lambda: None, writes=[variable])
                os._exit(0 if engine.wait_for_variable(variable, timeout=20) else 1)
            if os.waitpid(child, 0)[1]:
                os._exit(2)
        stop = True
        for thread in threads:
            thread.join()
        # No push was lost to the forks.
        engine.wait_for_all()
        assert engine.variable_version(variable) == sum(pushed)
        sys.exit(3)
        """
    )
    assert done.returncode == 3, done.stderr


def test_fork_inside_an_operation(python: Python) -> None:
    done = python(
        """
        import os, sys, mx_engine
        engine = mx_engine.create(workers=2)
        statuses = []
        def fork():
            child = os.fork()
            if child == 0:
                own = engine.new_variable()
                engine.push(lambda: None, writes=[own])
                os._exit(5 if engine.wait_for_variable(own, timeout=20) else 6)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        engine.push(fork)
        engine.wait_for_all()
        sys.exit(statuses[0])
        """
    )
    assert done.returncode == 5, done.stderr


LOST = """
import os, sys, threading, time, mx_engine
from mx_core.errors import MXNetError
os.environ["MX_FORK_TIMEOUT"] = "0.2"
gate = threading.Event()
engine = mx_engine.create({kind!r}, workers=2)
written, read, idle = (engine.new_variable() for _ in range(3))
engine.push(lambda: gate.wait(30), reads=[read], writes=[written])
engine.push(lambda: None, writes=[written])
if child := os.fork():
    status = os.waitpid(child, 0)[1]
    gate.set()
    sys.exit(os.waitstatus_to_exitcode(status))
begin = time.monotonic()
ran = []
engine.push(lambda: ran.append(1), writes=[idle])
engine.push(lambda: ran.append(2), reads=[read], writes=[idle])  # beside a read that never ends
for how in ({{"writes": [written]}}, {{"reads": [written]}}, {{"writes": [read]}}):
    try:
        engine.push(lambda: ran.append(3), name="late", **how)
    except MXNetError as error:
        assert "late" in str(error) and "pending in the parent" in str(error), error
    else:
        raise AssertionError(how)
try:
    engine.wait_for_variable(written)
except MXNetError as error:
    assert "pending in the parent" in str(error), error
engine.delete_variable(written)
del read
engine.wait_for_variable(idle)
engine.wait_for_all()
assert ran == [1, 2] and time.monotonic() - begin < 10
sys.exit(7)
"""


@pytest.mark.parametrize("kind", ["ThreadedEnginePerDevice", "ThreadedEngine"])
def test_a_child_refuses_what_would_wait_for_lost_operations(python: Python, kind: str) -> None:
    done = python(LOST.format(kind=kind))
    assert done.returncode == 7, done.stderr


def test_nothing_can_be_pushed_between_the_hooks_of_a_fork(python: Python) -> None:
    done = python(
        """
        import os, mx_engine
        from mx_core.errors import MXNetError
        engine = None
        def late():
            try:
                engine.push(lambda: None)
            except MXNetError as error:
                print(error, flush=True)
        os.register_at_fork(before=late)  # registered first, so called last
        engine = mx_engine.create(workers=1)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        """
    )
    assert done.returncode == 0, done.stderr
    assert "about to fork" in done.stdout


@pytest.mark.parametrize("wait", ["engine.wait_for_variable(variable)", "engine.wait_for_all()"])
def test_ctrl_c_ends_a_wait(wait: str) -> None:
    code = f"""
import threading, time, mx_engine
engine = mx_engine.create(workers=1)
variable, gate = engine.new_variable(), threading.Event()
engine.push(lambda: gate.wait(30), writes=[variable])
print("waiting", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
gate.set()
engine.wait_for_all()
print("usable", flush=True)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        word, moment = process.stdout.readline().split()
        assert word == "interrupted"
        assert float(moment) - sent < 10  # 0.05 s and what a loaded machine adds
        assert process.stdout.readline() == "usable\n"
    assert process.returncode == 0


def test_the_report_is_short() -> None:
    text = unobserved_text(8, [f"failure {i}" for i in range(8)])
    assert text.splitlines()[0] == "mx: 8 failures were never observed:"
    assert text.splitlines()[-2:] == ["  failure 4", "  and 3 more"]
    assert unobserved_text(1, ["x"]) == "mx: 1 failure was never observed:\n  x"


def test_the_report_has_each_text_once_and_says_which_are_not_kept(python: Python) -> None:
    assert unobserved_text(9, ["x", "y", "x"]).splitlines()[1:] == [
        "  2 times: x", "  y", "  and 6 whose texts are not kept: they came after many others",
    ]  # fmt: skip
    code = """
        import mx_engine
        engine = mx_engine.create(workers=1)
        variables = [engine.new_variable() for _ in range(1500)]
        for variable in variables:
            engine.push(lambda: {}["one"], writes=[variable])
        """
    done = python(code)
    head, text, rest = done.stderr.splitlines()
    assert head == "mx: 1500 failures were never observed:"
    assert text.startswith("  1024 times: KeyError: 'one' (in operator ")
    assert rest == "  and 476 whose texts are not kept: they came after many others"
