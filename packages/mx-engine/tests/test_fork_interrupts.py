# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at every line that runs in Python while a process forks."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import os, sys, threading
import mx_engine
from mx_core import services
from mx_core.forks import first_use

engine = {how}

def press_at(number):
    # Ctrl-C at a line of the functions that a fork calls, by number; how many lines there were
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        if event == "line" and "/mx_" in frame.f_code.co_filename:
            seen += 1
            if seen == number:
                raise KeyboardInterrupt
        return trace
    parent = os.getpid()
    raised = 0
    sys.settrace(trace)
    try:
        child = os.fork()
    except KeyboardInterrupt:
        raised = 1
        child = 0 if os.getpid() != parent else -1
    sys.settrace(None)
    ran = []
    variable = engine.new_variable()
    engine.push(lambda: ran.append(1), writes=[variable])
    works = engine.wait_for_variable(variable, timeout=20) and ran == [1] and not threading.Thread(
        target=lambda: first_use.__enter__()).start()
    if os.getpid() != parent:
        os._exit(0 if works else 9)  # what came before the fork is the parent's
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert works and status == 0 and raised == (seen >= number), (number, seen, works, status, raised)
    return seen

engine.push(print, writes=[engine.new_variable()])
engine.wait_for_all()
number = 1
while press_at(number) >= number:
    number += 1
print(number > 20)
"""


@pytest.mark.parametrize(
    "how", ["services.engine()", pytest.param("mx_engine.create(workers=2)", marks=pytest.mark.slow)]
)
def test_ctrl_c_at_any_line_of_a_fork_is_raised_after_it_and_both_engines_work(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM.format(how=how)],  # of forks
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["True"], "")
