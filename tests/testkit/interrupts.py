# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at many moments of a statement."""

from __future__ import annotations

from .fresh import run

_PROGRAM = """
import random, signal
{prepared}

def interrupt(*_):
    raise KeyboardInterrupt

draw = random.Random(0)
signal.signal(signal.SIGALRM, interrupt)
for _ in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 3e-4))
        while True:
            {interrupted}
    except KeyboardInterrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
assert {true}
"""


def check(prepared: str, interrupted: str, true: str) -> None:
    """Runs a statement 300 times until an interrupt comes, 10 to 300 microseconds later; then something must hold.

    Parameters
    ----------
    prepared : str
        Statements that run first.
    interrupted : str
        A statement of one line, repeated until the interrupt.
    true : str
        An expression.

    Raises
    ------
    AssertionError
        It is false, or the program failed otherwise.
    """
    done = run(_PROGRAM.format(prepared=prepared, interrupted=interrupted, true=true), timeout=60)
    assert done.returncode == 0, done.stderr
