# SPDX-License-Identifier: Apache-2.0
"""A program ends while daemon threads are in Python code that native code has called.

CPython up to 3.13 unwinds such a thread's stack, native frames included, when it asks for the interpreter again.
"""

from __future__ import annotations

import pytest

from testkit.fresh import run

pytestmark = pytest.mark.long

HEAD = """
import random, sys, threading, time
import numpy as np
import mx
from mx_symbol._core import replaced
from mx_symbol.graph import topological_order
sys.setswitchinterval(1e-5)
x = mx.sym.Variable("x")
def net(nodes):
    made = x
    for i in range(nodes): made = mx.sym.elemwise_add(mx.sym.tanh(made), mx.sym.exp(x))
    return made
deep = net(150)
"""

WORK = {
    "inferring shapes": "def work(n): deep.infer_shape(x=(n, 3))",
    "compiling": "def work(n): deep.simple_bind(x=(n % 5 + 1,))",
    "replacing": """
heads, leaf, other = list(deep.entries), x.entries[0], mx.sym.Variable("y").entries[0]
def work(n): replaced(heads, {leaf: other}, lambda node, inputs: node.copy(inputs))
""",
    "walking": """
heads = [entry.node for entry in deep.entries]
def work(n): topological_order(heads)
""",
    "preparing": "def work(n): mx.nd.broadcast_add(mx.nd.ones((n % 999 + 1, 2)), mx.nd.ones((1, 2)))",
    "indexing": """
a = mx.nd.ones((40, 30))
def work(n):
    a[n % 30:n % 30 + 3, 1] = n
    a[0:2, ::3].reshape((-1,))
""",
    "converting": "def work(n): mx.nd.array([[n, i, 2.5] for i in range(50)])",
    "in a Python operator": """
class Twice(mx.autograd.Function):
    def forward(self, x): return x * 2
    def backward(self, grad): return grad * 2
def work(n):
    a = mx.nd.ones((n % 9 + 1,)); a.attach_grad()
    with mx.autograd.record(): b = Twice()(a)
    b.backward()
""",
}
EXITS = 5
END = """
def forever():
    number = 0
    while True:
        number += 1
        work(number)
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
time.sleep(float(sys.argv[1]))
class Lingers:
    sleep = time.sleep
    def __del__(self): self.sleep(0.3)  # while the interpreter ends
lingers = Lingers(); lingers.cycle = lingers
sys.exit(5)
"""


def cases() -> list[object]:
    return [
        pytest.param(work, 0.3 + 0.05 * i, marks=[pytest.mark.slow] if i else [])
        for work in WORK
        for i in range(EXITS)
    ]


@pytest.mark.parametrize(("work", "delay"), cases())
def test_the_threads_do_not_harm_the_end(work: str, delay: float) -> None:
    done = run(HEAD + WORK[work] + END, delay, timeout=100)
    assert (done.returncode, done.stderr) == (5, "")


REFUSED = """
import atexit, sys, threading
begin = threading.Event()
def release():
    begin.set()
    thread.join()
atexit.register(release)  # before the first import of mx: runs when the engine is closed to other threads
import mx
def work():
    begin.wait()
    mx.nd.ones((2,))
    print("not refused")
def fails():
    try: work()
    finally: raise ValueError("of the program")
mx.nd.ones((2,)).wait_to_read()
thread = threading.Thread(target=globals()[sys.argv[1]], daemon=True)
thread.start()
"""


def test_a_daemon_thread_that_the_engine_refuses_at_the_end_prints_nothing() -> None:
    done = run(REFUSED, "work")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    other = run(REFUSED, "fails")
    assert other.returncode == 0 and "ValueError: of the program" in other.stderr
