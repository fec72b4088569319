# SPDX-License-Identifier: Apache-2.0
"""Operations that hang: everything that waits for them has a limit, can be interrupted, and says what hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import mx_engine
from mx_core.testing import FakeDevice

pytestmark = pytest.mark.timeout(60)

Python = Callable[..., "subprocess.CompletedProcess[str]"]


def test_stop_has_a_limit_and_says_what_runs(engine: mx_engine.Engine) -> None:
    gate = threading.Event()
    engine.push(gate.wait, name="stuck")
    start = time.monotonic()
    while not engine.running():
        time.sleep(0.001)
    assert engine.stop(0.2) is False
    assert time.monotonic() - start < 5
    assert engine.running()[0].startswith("stuck (pushed at ") and "test_limits.py:" in engine.running()[0]
    gate.set()
    assert engine.stop(20) is True
    assert engine.running() == []
    engine.push(lambda: None)
    assert engine.stop() is True


def test_what_an_accelerator_does_not_finish_is_named(engine: mx_engine.Engine) -> None:
    device, gate = FakeDevice(), threading.Event()
    engine.attach_device(device.capsule)
    engine.push(lambda: device.enqueue(gate.wait), context=device.context(), name="kernel")
    assert engine.drain(0.1) is False
    assert [text.split()[0] for text in engine.running()] == ["kernel"]
    gate.set()
    assert engine.stop(20)
    assert device.tokens == 0


def test_an_engine_does_not_stop_on_its_own_thread(engine: mx_engine.Engine) -> None:
    answers = []
    engine.push(lambda: answers.append(engine.stop()))
    engine.wait_for_all()
    assert answers == [False]


def test_the_exit_says_what_hangs(python: Python) -> None:
    done = python(
        """
        import time, mx_engine
        engine = mx_engine.create(workers=2)
        engine.push(lambda: time.sleep(1000), name="endless")
        """,
        MX_SHUTDOWN_TIMEOUT="0.3",
    )
    assert "1 operation had not finished at exit; given up; running: endless" in done.stderr


@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_a_fork_does_not_wait_for_ever(python: Python, how: str) -> None:
    done = python(
        f"""
        import os, time, threading, mx_engine
        from mx_core import services
        engine, gate = {how}, threading.Event()
        engine.push(gate.wait, name="stuck")
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            engine.push(lambda: print("child", flush=True))
            engine.wait_for_all()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(time.monotonic() - start < 10)
        gate.set()
        engine.wait_for_all()
        """,
        MX_FORK_TIMEOUT="0.3",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "child\nTrue\n"
    assert "had not finished 0.3 s after the fork began; running: stuck (pushed at" in done.stderr


def test_a_child_is_told_of_what_was_lost_in_the_fork(python: Python) -> None:
    done = python(
        """
        import os, threading, mx_engine
        from mx_core.errors import MXNetError
        engine, gate = mx_engine.create(workers=2), threading.Event()
        variable = engine.new_variable()
        engine.push(gate.wait, writes=[variable])
        child = os.fork()
        if child == 0:
            try:
                engine.wait_for_variable(variable)
            except MXNetError as error:
                print(error, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        gate.set()
        """,
        MX_FORK_TIMEOUT="0.2",
    )
    assert "do not exist here" in done.stdout, done.stderr
    assert done.returncode == 0


def test_a_wait_in_which_a_handler_forks_ends_in_the_child(python: Python) -> None:
    done = python(
        """
        import os, signal, threading, mx_engine
        from mx_core.errors import MXNetError
        engine, gate, forked = mx_engine.create(workers=2), threading.Event(), []
        variable = engine.new_variable()
        def handler(*_):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            forked.append(os.fork())
            if forked[0] == 0:
                signal.alarm(20)  # ends a child that waits for ever
            else:
                gate.set()
        signal.signal(signal.SIGALRM, handler)
        engine.push(gate.wait, writes=[variable])
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            engine.wait_for_variable(variable)
        except MXNetError as error:
            print(error, flush=True)
        if forked[0] == 0:
            os._exit(0)
        assert os.waitpid(forked[0], 0)[1] == 0
        print("parent")
        """,
        MX_FORK_TIMEOUT="0.2",
    )
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert "do not exist here" in child and parent == "parent"


@pytest.mark.long
@pytest.mark.parametrize("how", ["kept.clear()", "kept[0](), kept[0](ValueError())"])
@pytest.mark.parametrize("engine", ["mx_engine.create(workers=2)", "services.engine()"])
def test_a_completion_of_the_parent_s_does_nothing_in_the_child(
    python: Python, how: str, engine: str
) -> None:
    done = python(
        f"""
        import os, time, mx_engine
        from mx_core import services
        from mx_core.errors import MXNetError
        engine, kept = {engine}, []
        variable = engine.new_variable()
        engine.push_async(lambda done: kept.append(done), writes=[variable])
        while not kept:
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            try:
                {how}
            except MXNetError as error:
                assert "called twice" in str(error)
            assert engine.pending == 0
            own = engine.new_variable()
            engine.push(lambda: None, writes=[own])
            assert engine.wait_for_all(timeout=20)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        kept[0]()
        assert engine.wait_for_variable(variable, timeout=20)
        """,
        MX_FORK_TIMEOUT="0.2",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("engine", ["mx_engine.create(workers=2)", "services.engine()"])
@pytest.mark.parametrize("kind", ["TimeoutError", "SystemExit", "KeyboardInterrupt"])
def test_what_a_handler_raises_while_a_fork_waits_is_the_program_s(
    python: Python, engine: str, kind: str
) -> None:
    done = python(
        f"""
        import os, signal, threading, mx_engine
        from mx_core import services
        def handler(*_):
            raise {kind}(7)
        signal.signal(signal.SIGALRM, handler)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nobody presses Ctrl-C for it
        engine, gate = {engine}, threading.Event()
        engine.push(gate.wait)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            os.fork() or os._exit(0)
            print("went on")
        except {kind} as error:
            print("raised", *error.args)
        gate.set()
        engine.wait_for_all()
        """
    )
    assert done.stdout == "raised 7\n", done.stderr
    assert "had not finished when the fork was interrupted" in done.stderr


@pytest.mark.parametrize("kind", ["TimeoutError", "SystemExit"])
def test_what_a_handler_raises_while_an_engine_ends_is_the_program_s(python: Python, kind: str) -> None:
    done = python(
        f"""
        import signal, threading, time, mx_engine
        def handler(*_):
            raise {kind}(7)
        signal.signal(signal.SIGALRM, handler)
        engine, gate = mx_engine.create(workers=2), threading.Event()
        engine.push(gate.wait)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            del engine
            time.sleep(1)
            print("went on")
        except {kind} as error:
            print("raised", *error.args)
        gate.set()
        """
    )
    assert done.stdout == "raised 7\n", done.stderr


def test_names_that_are_cut_in_a_character_are_told(python: Python) -> None:
    done = python(
        """
        import mx_engine
        from mx_core.errors import MXNetError
        engine = mx_engine.create(workers=2)
        def fail():
            raise ZeroDivisionError("none")
        for odd in ("", "x"):
            variable = engine.new_variable()
            engine.push(fail, writes=[variable], name=odd + "é" * 200)
            while not engine.variable_ready(variable):
                pass
            count, texts = engine.unobserved()
            assert count == 1 and "éé" in texts[0], texts
            try:
                engine.wait_for_variable(variable)
            except ZeroDivisionError as error:
                assert "éé" in error.__notes__[0]
            try:
                engine.push(fail, reads=[variable, variable], name=odd + "é" * 300)
            except MXNetError as error:
                assert "éé" in str(error)
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_spawned_process_has_engines_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import mx_engine

            engine = mx_engine.create(workers=2)

            def work(n):
                variable, seen = engine.new_variable(), []
                engine.push(lambda: seen.append(n * n), writes=[variable])
                engine.wait_for_variable(variable)
                return seen[0]

            if __name__ == "__main__":
                engine.push(lambda: None)
                with multiprocessing.get_context("spawn").Pool(2) as pool:
                    print(pool.map(work, range(4)))
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "[0, 1, 4, 9]\n", done.stderr
    assert done.returncode == 0


WAITS = {
    "stop": "engine.stop()",
    "drain": "engine.drain(1000)",
    "close": "engine.close(1000)",
    "end": "engine = None; time.sleep(0.5)",
    "fork": "os.fork() or os._exit(0); time.sleep(1)",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_ctrl_c_ends_what_waits_for_a_hanging_operation(wait: str) -> None:
    code = f"""
    import os, threading, time, mx_engine
    engine = mx_engine.create(workers=2)
    gate = threading.Event()
    engine.push(gate.wait)
    print("waiting", flush=True)
    try:
        {wait}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    gate.set()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 8  # an exit would wait 10 s, a fork 30 s
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
