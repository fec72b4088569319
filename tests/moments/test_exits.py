# SPDX-License-Identifier: Apache-2.0
"""A program may end while daemon threads are at anything: exit code 0 or its own, soon, without a death."""

from __future__ import annotations

import pytest

from testkit.fresh import run, sampled

HEAD = """
import sys, threading, time
import numpy as np
import mx
def forever(function):
    def main():
        number = 0
        while True:
            number += 1
            try:
                function(number)
            except mx.MXNetError as error:
                if "shut down" not in str(error): raise
                time.sleep(0.001)
    return main
def bind(number):
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=number % 20 + 1)
    net.simple_bind(data=(1, number % 7 + 1, 9, 9)).forward(is_train=False)[0].wait_to_read()
"""

WORK = {
    "adding": "def work(n): (mx.nd.ones((n % 50 + 1,)) + 1).asnumpy()",
    "binding": "work = bind",
    "dense": "def work(n): mx.nd.FullyConnected(mx.nd.ones((2, n % 90 + 1)), mx.nd.ones((3, n % 90 + 1)), no_bias=True, num_hidden=3).wait_to_read()",
    "convolving": "def work(n): mx.nd.Convolution(mx.nd.ones((1, n % 9 + 1, 8, 8)), mx.nd.ones((4, n % 9 + 1, 3, 3)), no_bias=True, kernel=(3, 3), num_filter=4).wait_to_read()",
    "differentiating": """
def work(n):
    x = mx.nd.ones((n % 40 + 1,)); x.attach_grad()
    with mx.autograd.record(): y = (x * x).sum()
    y.backward(); x.grad.wait_to_read()
""",
    "a Python operator": """
class Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux): self.assign(out_data[0], req[0], in_data[0] * 2)
@mx.operator.register("twice")
class TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes): return Twice()
def work(n): mx.nd.Custom(mx.nd.ones((n % 9 + 1,)), op_type="twice").wait_to_read()
""",
    "saving": """
import tempfile; folder = tempfile.mkdtemp()
def work(n): mx.nd.save(folder + "/a.params", mx.nd.ones((n % 1000 + 1,)))
""",
    "drawing": "def work(n): mx.nd.random.uniform(shape=(n % 100 + 1,)).wait_to_read()",
    "iterating": """
def work(n):
    for batch in mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((16, 3)), batch_size=4)): batch.data[0].wait_to_read()
""",
    "training": """
import logging; logging.disable()
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3), name="softmax")
def work(n):
    x = mx.io.NDArrayIter(np.ones((8, n % 5 + 1)), np.zeros(8), batch_size=4)
    mx.mod.Module(net).fit(x, num_epoch=1, initializer=mx.init.Zero())
""",
}
#: seconds after which the main thread ends
DELAYS = [round(0.02 + 0.035 * i, 3) for i in range(17)]
END = """
for _ in range(2): threading.Thread(target=forever(work), daemon=True).start()
time.sleep(float(sys.argv[1]))
sys.exit(5)
"""


IMPORTING = """
import sys, threading, time
def work():
    import mx
    mx.nd.Convolution(mx.nd.ones((1, 2, 8, 8)), mx.nd.ones((4, 2, 3, 3)), no_bias=True, kernel=(3, 3), num_filter=4).asnumpy()
threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
sys.exit(5)
"""


@pytest.mark.parametrize("delay", sampled([round(0.03 * i, 2) for i in range(30)], 10))
def test_a_thread_may_be_importing(delay: float) -> None:
    done = run(IMPORTING, delay, timeout=100)
    assert done.returncode == 5, (done.returncode, done.stderr)


def cases() -> list[object]:
    found = []
    for i, work in enumerate(WORK):
        for j, delay in enumerate(DELAYS):
            marks = [] if j == (5 * i) % len(DELAYS) else [pytest.mark.slow]
            found.append(pytest.param(work, delay, marks=marks))
    return found


@pytest.mark.long
@pytest.mark.parametrize(("work", "delay"), cases())
def test_the_exit_code_is_the_programs(work: str, delay: float) -> None:
    done = run(HEAD + WORK[work] + END, delay, timeout=100)
    assert done.returncode == 5, (done.returncode, done.stderr)
