# SPDX-License-Identifier: Apache-2.0
"""How a whole process behaves: imports, engine types, failures, signals, exit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from testkit import fresh

HEAD = """
import signal, sys, threading, time
import numpy as np
from mx_core import operators
from mx_core.operator import Operator

class Slow(Operator):
    name = "slow"
    differentiable = False
    def reference(self, p, inputs, ctx):
        gate.wait(seconds)
        return (np.array(inputs[0]),)

class Fails(Operator):
    name = "fails"
    differentiable = False
    def reference(self, p, inputs, ctx):
        raise KeyError("lost")

gate, seconds = threading.Event(), 1.5
scope = operators.temporary(Slow, Fails)
scope.__enter__()
from mx_ndarray import nd, waitall
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.timeout(90)
def test_import_starts_neither_engine_nor_plugins() -> None:
    code = "import mx_ndarray, sys; print('mx_engine' in sys.modules, 'mx_operators' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.timeout(90)
def test_the_naive_engine_raises_at_the_push() -> None:
    done = run(
        "try:\n    nd.fails(nd.ones((2,)))\nexcept KeyError as e:\n    print('raised', e)",
        MX_ENGINE_TYPE="NaiveEngine",
    )
    assert "raised 'lost'" in done.stdout, done.stderr


@pytest.mark.timeout(90)
def test_sticky_errors_are_raised_every_time() -> None:
    code = """
x = nd.fails(nd.ones((2,)))
for _ in range(3):
    try:
        x.asnumpy()
    except KeyError:
        print("raised")
"""
    assert run(code, MX_ERRORS="sticky").stdout.split() == ["raised"] * 3


@pytest.mark.timeout(90)
def test_a_wait_is_interrupted() -> None:
    code = """
seconds = 30
x = nd.slow(nd.ones((1000, 100)))
threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
start = time.monotonic()
try:
    x.asnumpy()
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 10)
gate.set()
"""
    assert run(code).stdout.split() == ["interrupted", "True"]


@pytest.mark.timeout(90)
def test_exit_with_pending_work_is_clean() -> None:
    done = run("x = nd.ones((1000, 100))\nfor _ in range(100):\n    x = x + 1\nnd.slow(x)")
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(90)
def test_a_missing_engine_is_named() -> None:
    done = run("nd.ones((2,))", MX_ENGINE_TYPE="NoSuchEngine")
    assert done.returncode == 1
    assert "NoSuchEngine" in done.stderr.splitlines()[-1]


@pytest.mark.long
@pytest.mark.timeout(90)
def test_forks_beside_busy_threads() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore")
sys.setswitchinterval(1e-6)
a, busy = nd.ones((4, 4)), True

def work():
    while busy:
        a + a

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(50):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
busy = False
print("forked")
"""
    assert run(code).stdout.split() == ["forked"]


@pytest.mark.long
@pytest.mark.timeout(90)
def test_exit_with_busy_daemon_threads_is_clean() -> None:
    code = """
a, b = nd.ones((4, 4)), nd.ones((300, 300))

def work():
    while True:
        (a + a).asnumpy()
        b + b

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr


@pytest.mark.timeout(90)
def test_a_kernel_in_python_that_wakes_up_during_finalisation_is_harmless() -> None:
    code = """
class Naps(Operator):
    name = "naps"
    differentiable = False
    def reference(self, p, inputs, ctx):
        time.sleep(0.4)
        return (np.array(inputs[0]),)

naps = operators.temporary(Naps)
naps.__enter__()
kept = nd.naps(nd.ones((1000, 100)))

class Lingers:  # keeps finalisation going until the kernel wakes up
    sleep = time.sleep
    def __del__(self):
        self.sleep(0.8)

lingers = Lingers()
lingers.cycle = lingers
"""
    done = run(code, MX_SHUTDOWN_TIMEOUT="0.1")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.timeout(90)
def test_a_daemon_thread_inside_our_python_during_finalisation_is_harmless() -> None:
    code = """
def work():
    n = 1
    while True:  # a new shape each time: most of it is Python that native code calls
        n += 1
        nd.zeros((n % 5000, 2)) + n

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)

class Lingers:
    sleep = time.sleep
    def __del__(self):
        self.sleep(0.3)

lingers = Lingers()
lingers.cycle = lingers
"""
    for _ in range(3):
        done = run(code)
        assert done.returncode == 0, done.stderr


FIRST_READS = """
import sys, threading
from mx_ndarray import nd

sys.setswitchinterval(1e-5)
x = nd.ones((1,))
x.wait_to_read()
together = threading.Barrier(4)
found = []

def read():
    together.wait()
    found.append(x.asscalar())

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == [1] * 4
"""


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(4))
def test_threads_may_read_their_first_numbers_together(attempt: int) -> None:
    done = fresh.run(FIRST_READS, timeout=30)
    assert done.returncode == 0, done.stderr
