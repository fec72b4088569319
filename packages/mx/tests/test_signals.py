# SPDX-License-Identifier: Apache-2.0
"""Signals that come while kernels run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

pytest.importorskip("mx_operators_cpu")

#: products of oneDNN let the stack pointer point into the heap, where a handler that goes on there would write
PROGRAM = """
import signal

import mx

seen = 0


def handle(*_):
    global seen
    seen += 1


rows, rounds, timer, number = ROWS, ROUNDS, signal.TIMER, signal.NUMBER
data, weight = mx.nd.ones((rows, 910)), mx.nd.ones((6, 910))
signal.signal(number, handle)
signal.setitimer(timer, 3e-4, 3e-4)
for _ in range(rounds):
    product = mx.nd.FullyConnected(data, weight, no_bias=True, num_hidden=6)
    product.wait_to_read()
signal.setitimer(timer, 0)
kept = [bytes(n) for n in range(16, 5000, 16)]
assert (product.asnumpy() == 910).all()
print("seen", seen)
"""


#: rows, rounds, and what comes: to the first thread; to those that compute, also helpers of a team
FIRST = {"ROWS": "2000", "ROUNDS": "400", "TIMER": "ITIMER_REAL", "NUMBER": "SIGALRM"}
COMPUTING = {"ROWS": "20000", "ROUNDS": "200", "TIMER": "ITIMER_PROF", "NUMBER": "SIGPROF"}


@pytest.mark.parametrize("signals", [FIRST, COMPUTING], ids=["first", "computing"])
@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_handlers_do_not_run_on_the_heap(engine: str, signals: dict[str, str]) -> None:
    program = PROGRAM
    for word, value in signals.items():
        program = program.replace(word, value)
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"MXNET_ENGINE_TYPE": engine}, capture_output=True,
        text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[1]) > 20, done.stdout
