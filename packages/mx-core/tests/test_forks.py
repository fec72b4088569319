# SPDX-License-Identifier: Apache-2.0
"""Forks beside first uses, and threads that wait for an import that waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from mx_core import forks
from mx_core.errors import PluginError
from testkit import interrupts

pytestmark = pytest.mark.timeout(60)


def child_ends(body, seconds=20.0) -> bool:
    """Whether a forked child that runs `body` ends in time; it is killed otherwise."""
    pid = os.fork()
    if pid == 0:
        body()
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


class Holder(threading.Thread):
    """Is inside a context until told to leave."""

    def __init__(self, context) -> None:
        super().__init__(daemon=True)
        self.context, self.inside, self.leave = context, threading.Event(), threading.Event()
        self.start()
        assert self.inside.wait(10)

    def run(self) -> None:
        with self.context:
            self.inside.set()
            self.leave.wait(30)


def use(lock) -> None:
    with lock, lock:
        pass


def test_a_child_never_finds_a_lock_taken_by_a_thread_it_does_not_have() -> None:
    lock = forks.ForkSafeLock()
    holder = Holder(lock)
    assert child_ends(lambda: use(lock))
    holder.leave.set()
    holder.join()


def test_the_lock_of_the_forking_thread_stays_its_own_in_the_child() -> None:
    lock = forks.ForkSafeLock()

    def body() -> None:
        refused = []
        thread = threading.Thread(target=lambda: refused.append(not lock.acquire(timeout=0.05)))
        thread.start()
        thread.join()
        os._exit(0 if refused == [True] else 1)

    with lock:
        pid = os.fork()
        if pid == 0:
            body()
        assert os.waitpid(pid, 0)[1] == 0


def test_a_fork_waits_for_the_end_of_a_first_use() -> None:
    holder = Holder(forks.first_use)
    threading.Timer(0.3, holder.leave.set).start()
    begun = time.monotonic()
    assert child_ends(use_nested)
    assert time.monotonic() - begun > 0.2
    holder.join()


def test_a_fork_does_not_wait_for_ever(monkeypatch, capfd) -> None:
    monkeypatch.setenv("MX_FORK_TIMEOUT", "0.2")
    holder = Holder(forks.first_use)
    assert child_ends(lambda: None)
    assert "had not finished 0.2 s after the fork began" in capfd.readouterr().err
    holder.leave.set()
    holder.join()


def test_a_thread_may_fork_inside_its_own_first_use() -> None:
    with forks.first_use:
        assert child_ends(use_nested)


def use_nested() -> None:
    with forks.first_use, forks.first_use:
        pass


def test_who_waits_for_a_thread_that_waits_for_him_is_told() -> None:
    lock = forks.FirstUseLock()
    caught = []

    def first_use_of_mx() -> None:
        try:
            with lock:
                pass
        except PluginError as error:
            caught.append(str(error))

    with lock:
        thread = threading.Thread(target=first_use_of_mx)
        thread.start()
        thread.join(20)
    assert len(caught) == 1 and f"{__file__}:" in caught[0] and "start such threads after" in caught[0]


def test_who_imports_what_the_holder_waits_for_is_told(tmp_path, monkeypatch) -> None:
    (tmp_path / "imported_by_two.py").write_text("import __main__\n__main__.imported_by_two()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    lock, begun, caught = forks.FirstUseLock(), threading.Event(), []

    def use_of_mx() -> None:
        begun.set()
        try:
            with lock:
                pass
        except PluginError as error:
            caught.append(str(error))

    monkeypatch.setattr(sys.modules["__main__"], "imported_by_two", use_of_mx, raising=False)
    thread = threading.Thread(target=__import__, args=("imported_by_two",))
    with lock:
        thread.start()
        assert begun.wait(20)
        __import__("imported_by_two")
    thread.join(20)
    sys.modules.pop("imported_by_two")
    assert len(caught) == 1 and "while it imports 'imported_by_two', for which another one waits" in caught[0]


def test_a_holder_that_starts_a_thread_does_not_wait_for_it() -> None:
    """On a loaded machine `start` takes long to see that the thread runs."""

    class Late(threading.Event):
        def set(self) -> None:
            timer = threading.Timer(1.0, super().set)
            timer.start()
            timers.append(timer)

    class Impatient(forks.FirstUseLock):
        LOOK = 0.005

    lock, ran, timers = Impatient(), [], []

    def other() -> None:
        with lock:
            ran.append(True)

    with lock:
        thread = threading.Thread(target=other)
        thread._started = Late()  # type: ignore[attr-defined]
        thread.start()
    for each in (thread, *timers):
        each.join(10)
    assert ran == [True]


def test_who_waits_for_a_busy_holder_just_waits() -> None:
    lock = forks.FirstUseLock()
    ran = []

    def other() -> None:
        with lock:
            ran.append(True)

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        end = time.monotonic() + 0.6
        while time.monotonic() < end:  # never at one place for long, however loaded the machine is
            sum(range(100))
    thread.join(10)
    assert ran == [True]


def test_a_plugin_whose_import_waits_for_a_thread_that_uses_mx(tmp_path) -> None:
    (tmp_path / "waiting.py").write_text(
        textwrap.dedent(
            """
            import threading
            from mx_core import operators, plugins

            said = []

            def work():
                try:
                    plugins.registry("kvstores")
                except plugins.loaded.PluginError as error:
                    said.append(str(error))

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            print("said:", said[0])
            """
        )
    )
    info = tmp_path / "mx_waiting-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mx-waiting\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[mx.plugins.v1]\nwaiting = waiting\n")
    program = "from mx_core import plugins; plugins.registry('engines'); print('loaded')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "said: this thread uses mx for the first time" in done.stdout and "loaded" in done.stdout


@pytest.mark.parametrize("module", ["mx_core", "mx_core.errors"])
def test_sub_interpreters_are_refused(module) -> None:
    interpreters = pytest.importorskip(
        "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    )
    del interpreters
    program = f"""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        code = "try:\\n    import {module}\\nexcept ImportError as error:\\n    print(error, flush=True)"
        interpreters.run_string(interpreters.create(), code)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "mx cannot be imported in a sub-interpreter" in done.stdout, done.stderr


LOCK = """
import threading
from mx_core import forks

lock = {make}

def is_free():
    found = []
    thread = threading.Thread(target=lambda: found.append(({take})()))
    thread.start()
    thread.join()
    return found[0]
"""


@pytest.mark.parametrize(
    ("make", "take"),
    [
        ("forks.ForkSafeLock()", "lambda: lock.acquire(timeout=1)"),
        ("forks.FirstUseLock()", "lambda: lock.acquire(timeout=1)"),
        ("forks._FirstUse()", "lock._take_others"),
    ],
)
def test_ctrl_c_never_leaves_a_lock_taken(make, take) -> None:
    interrupts.check(LOCK.format(make=make, take=take), "with lock, lock: pass", "is_free()")


INTERRUPTED = """
import os, threading
from mx_core import forks

parent = os.getpid()

class Interrupting(forks.ForkSafeLock):
    calls = []

    def acquire(self, timeout=-1.0):
        self.press("acquire")
        return super().acquire(timeout)

    def release(self):
        super().release()
        self.press("release")

    def press(self, what):
        if what in self.calls:
            self.calls.remove(what)
            raise KeyboardInterrupt

def first_use_elsewhere():
    with forks.first_use:
        pass

thread = threading.Thread(target=first_use_elsewhere)
thread.start()
thread.join()
forks.first_use._adding = Interrupting()
for calls in (["acquire"], ["release"]):
    Interrupting.calls[:] = calls
    raised = 0
    try:
        if os.fork() == 0:
            os._exit(0)
    except KeyboardInterrupt:
        raised += 1
    if os.getpid() != parent:
        os._exit(0)
    os.wait()
    thread = threading.Thread(target=first_use_elsewhere)
    thread.start()
    thread.join(5)
    print(calls, raised, not thread.is_alive(), flush=True)
"""


def test_ctrl_c_at_a_fork_is_raised_after_it_and_leaves_no_lock_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", INTERRUPTED],  # CPython warns of forks
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = [f"{calls} 1 True" for calls in (["acquire"], ["release"])]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")
