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


def test_programs_run_under_the_naive_engine():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"MX_ENGINE_TYPE": "NaiveEngine"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "raised at the push" in done.stdout
