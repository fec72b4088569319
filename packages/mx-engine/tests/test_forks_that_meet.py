# SPDX-License-Identifier: Apache-2.0
"""A fork while another one waits for the engine: of another thread, or of a handler of a signal of the same thread."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.timeout(120)

Python = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import os, signal, sys, threading, time, mx_engine
from mx_core import services
engine = {how}
engine.push(lambda: time.sleep(0.5), writes=[engine.new_variable()])
statuses = []

def works():
    ran, variable = [], engine.new_variable()
    engine.push(lambda: ran.append(1), writes=[variable])
    return engine.wait_for_variable(variable, timeout=20) and ran == [1]

def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it where it hangs
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os._exit(0 if works() else 9)
    statuses.append(os.waitpid(child, 0)[1])

def by_threads():
    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()

def by_a_handler():
    signal.signal(signal.SIGALRM, lambda *_: fork())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    fork()

{which}()
assert len(statuses) > 1 and not any(statuses), statuses
assert works()
other = threading.Thread(target=lambda: statuses.append(works()), daemon=True)
other.start()
other.join(20)
assert statuses[-1] is True
sys.exit(3)
"""


@pytest.mark.parametrize("which", ["by_threads", "by_a_handler"])
@pytest.mark.parametrize("how", ["mx_engine.create(workers=2)", "services.engine()"])
def test_forks_that_meet(python: Python, how: str, which: str) -> None:
    done = python(PROGRAM.format(how=how, which=which))
    assert done.returncode == 3, (done.returncode, done.stderr)
