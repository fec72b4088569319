# SPDX-License-Identifier: Apache-2.0
"""Signals that come while kernels run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("mx_operators_cpu")

#: products of oneDNN let the stack pointer point into the heap, where a handler that goes on there would write
PROGRAM = """
import signal

import mx

seen = 0


def handle(*_):
    global seen
    seen += 1


data, weight = mx.nd.ones((2000, 910)), mx.nd.ones((6, 910))
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 3e-4, 3e-4)
for _ in range(400):
    product = mx.nd.FullyConnected(data, weight, no_bias=True, num_hidden=6)
    product.wait_to_read()
signal.setitimer(signal.ITIMER_REAL, 0)
kept = [bytes(n) for n in range(16, 5000, 16)]
assert (product.asnumpy() == 910).all()
print("seen", seen)
"""


@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_handlers_run_on_a_stack_of_their_own(engine: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"MXNET_ENGINE_TYPE": engine}, capture_output=True,
        text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[1]) > 20, done.stdout
