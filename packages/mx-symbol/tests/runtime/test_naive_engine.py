# SPDX-License-Identifier: Apache-2.0
"""Under the naive engine everything runs at the push, and failures are raised there."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from mx_core import operators
from mx_core.operator import Operator
from mx_ndarray import nd
from mx_symbol import sym

class Fails(Operator):
    name = "test_fails"
    differentiable = False
    def reference(self, p, inputs, ctx):
        raise ZeroDivisionError("computed by test_fails")

executor = sym.exp(sym.Variable("a") * 2).simple_bind(a=(2,))
executor.forward(is_train=True, a=np.zeros(2))
executor.backward(nd.ones((2,)))
assert executor.grad_dict["a"].asnumpy().tolist() == [2, 2]
with operators.temporary(Fails):
    broken = sym.test_fails(sym.Variable("a"), name="culprit").simple_bind(a=(1,))
    try:
        broken.forward()
    except ZeroDivisionError as error:
        assert "culprit" in error.__notes__[0]
        print("raised at the push")
"""

# Two threads call one program of many segments, which hand values over in one arena.
THREADS = """
import threading
import numpy as np
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.runtime.cached_op import CachedOp

y, w = sym.Variable("x"), sym.Variable("w")
for i in range(4):
    y = sym.sort(sym.dot(y, w), axis=1) if i % 2 else sym.softmax(sym.dot(y, w))
op = CachedOp(y)
assert op.input_names == ["x", "w"]
random = np.random.default_rng(0)
w = nd.array(random.normal(size=(48, 48)) / 10)
data = [nd.array(random.normal(size=(48, 48))) for _ in range(2)]
expected = [op(x, w).asnumpy() for x in data]
(signature,) = op._signatures.values()
assert signature.compiled.program.segments(0) == 8
wrong = []

def call(i):
    for _ in range(40):
        wrong.extend([i] * (not np.array_equal(op(data[i], w).asnumpy(), expected[i])))

threads = [threading.Thread(target=call, args=(i,)) for i in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("wrong:", wrong)
"""


def run(program, **variables):
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"MX_ENGINE_TYPE": "NaiveEngine"} | variables,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_run_under_the_naive_engine():
    assert "raised at the push" in run(PROGRAM)


def test_threads_share_a_program_of_many_segments():
    assert run(THREADS, MXNET_EXEC_BULK_EXEC_INFERENCE="0") == "wrong: []\n"
