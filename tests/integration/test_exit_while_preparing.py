# SPDX-License-Identifier: Apache-2.0
"""The process may end at any moment, also while a thread prepares a primitive without the GIL."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

#: A daemon thread prepares a primitive per round: every shape is new.
PROGRAM = """
import sys, threading, time
from mx_ndarray import nd

def work():
    for i in range(1, 10**9):
        rows, width = 1 + i % 500, 3 + i // 500
        nd.FullyConnected(nd.ones((rows, width)), nd.ones((4, width)), nd.ones((4,)), num_hidden=4).asnumpy()
        started.set()

started = threading.Event()
threading.Thread(target=work, daemon=True).start()
assert started.wait(60)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.01, 0.02, 0.04])
def test_the_process_ends_while_a_daemon_thread_prepares(delay):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(delay)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
