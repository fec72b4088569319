# SPDX-License-Identifier: Apache-2.0
"""A Ctrl-C that comes while native code raises an error, or keeps one for later, arrives."""

from __future__ import annotations

import pytest

from testkit.fresh import run

PROGRAM = """
import random, signal
from mx_core import operators
from mx_core.errors import MXNetError
from mx_core.operator import Operator
from mx_ndarray import nd

class Plus(Operator):
    name = "python_plus"
    differentiable = False
    def reference(self, p, inputs, ctx):
        return [inputs[0] + 1]

declared = operators.temporary(Plus)
declared.__enter__()
python_plus = nd.python_plus
two, three = nd.ones((2,)), nd.ones((3,))
no_cholesky = nd.array([[-1, 0], [0, 1]])
sent = received = 0

def press(*_):
    global sent
    sent += 1
    raise KeyboardInterrupt

def work():
    {work}

def until_sent(round):  # a function of its own: CPython 3.13.0 handles no exception at the jump of a loop within `try`
    while sent == round:
        try:
            work()
        except MXNetError:
            pass

signal.signal(signal.SIGALRM, press)
draw = random.Random(0)
for round in range(1000):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, {latest}))
        until_sent(round)
    except KeyboardInterrupt:
        received += 1
assert received == sent == 1000, (received, sent)
"""


@pytest.mark.parametrize(
    ("work", "latest"),
    [
        ("nd.ones((1,)).backward()", 60e-6),
        ("two + three", 60e-6),
        ("nd.linalg.potrf(no_cholesky).asnumpy()", 200e-6),
        ("python_plus(two)", 200e-6),  # runs inline, and nobody reads the result
        ("python_plus(two).asnumpy()", 200e-6),
    ],
)
def test_it_arrives(work: str, latest: float) -> None:
    done = run(PROGRAM.format(work=work, latest=latest))
    assert done.returncode == 0, done.stderr


INLINE = """
import signal
import mx_ndarray
from mx_core import operators
from mx_core.operator import Operator
from mx_ndarray import nd

class Alarm(Exception):
    pass

def ring(*_):
    raise Alarm("now")

class Interrupted(Operator):
    name = "interrupted"
    differentiable = False
    def reference(self, p, inputs, ctx):
        signal.raise_signal(signal.{signal})
        return [inputs[0]]

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, ring)
with operators.temporary(Interrupted):
    x, y = nd.ones((3,)), nd.zeros((3,))
    try:
        nd.interrupted(x, out=y)
        print("nothing was raised")
    except {kind} as error:
        print(type(error).__name__, *error.__notes__[0].split()[:3])
nd.waitall()
print(type(y.error).__name__, (x + 1).asnumpy())
"""


@pytest.mark.parametrize("engine", ["", "NaiveEngine"])
@pytest.mark.parametrize(("signal", "kind"), [("SIGINT", "KeyboardInterrupt"), ("SIGALRM", "Alarm")])
def test_the_call_raises_it_once_that_runs_the_kernel_inline(signal: str, kind: str, engine: str) -> None:
    done = run(INLINE.format(signal=signal, kind=kind), MX_ENGINE_TYPE=engine)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout == f"{kind} in operator interrupted,\n{kind} [2. 2. 2.]\n"
