# SPDX-License-Identifier: Apache-2.0
"""Forks beside threads that use arrays, and the last moments of a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.timeout(180)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("milliseconds", [5, 30, 90])
def test_a_child_works_when_another_thread_was_in_its_first_use(milliseconds: int) -> None:
    done = python(
        f"""
        import os, threading, time
        import mx_ndarray
        def use():
            from mx_ndarray import nd
            assert (nd.ones((2,)) * 2).asnumpy().sum() == 4
        thread = threading.Thread(target=use)
        thread.start()
        time.sleep({milliseconds} / 1000)
        pid = os.fork()
        if pid == 0:
            use()
            os._exit(0)
        end = time.monotonic() + 40
        while time.monotonic() < end and not os.waitpid(pid, os.WNOHANG)[0]:
            time.sleep(0.01)
        thread.join()
        print("ended" if time.monotonic() < end else "hangs")
        if time.monotonic() >= end:
            os.kill(pid, 9)
        """
    )
    assert done.stdout == "ended\n", done.stderr


def test_a_fork_beside_busy_threads_does_not_wait_for_a_moment_of_quiet() -> None:
    done = python(
        """
        import os, threading, time
        from mx_ndarray import nd
        def work():
            return nd.dot(nd.ones((150, 150)), nd.ones((150, 150))).asnumpy()
        work()
        ended = []
        def main():
            while not ended:
                work()
        threads = [threading.Thread(target=main) for _ in range(4)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        for _ in range(3):
            begun = time.monotonic()
            pid = os.fork()
            if pid == 0:
                work()
                os._exit(0)
            slowest = max(slowest, time.monotonic() - begun)
            assert os.waitpid(pid, 0)[1] == 0
        ended.append(True)
        for thread in threads:
            thread.join()
        print(slowest < 12)
        """
    )
    assert done.stdout == "True\n", done.stderr
    assert "had not finished" not in done.stderr


@pytest.mark.parametrize("registered", ["before", "after"])
def test_handlers_of_the_exit_find_a_working_engine(registered: str) -> None:
    imports, register = "import mx_ndarray", "atexit.register(save)"
    lines = [imports, register] if registered == "after" else [register, imports]
    done = python(
        f"""
        import atexit
        def save():
            print("saved", float((weight * 2).asnumpy().sum()), flush=True)
        {lines[0]}
        {lines[1]}
        from mx_ndarray import nd
        weight = nd.ones((2,))
        weight.wait_to_read()
        """
    )
    assert (done.returncode, done.stdout) == (0, "saved 4.0\n"), done.stderr
    assert done.stderr == ""
