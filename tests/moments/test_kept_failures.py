# SPDX-License-Identifier: Apache-2.0
"""A failure that somebody has seen keeps neither the arrays of the frames that it passed nor those of its kernel.

An exception that somebody still holds keeps its traceback.
"""

from __future__ import annotations

import pytest

from testkit.fresh import run

PROGRAM = """
import gc, sys
import mx
from mx_core import services
engine = services.engine()
class Fails(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux): raise ZeroDivisionError
@mx.operator.register("fails")
class FailsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes): return Fails()
def local():  # the frame holds what it waits for
    large = mx.nd.ones((1000, 100))
    result = mx.nd.Custom(large, op_type="fails")
    result.asnumpy()
def kernel(): (mx.nd.linalg.potrf(-mx.nd.ones((300, 300))) + 1).wait_to_read()
def nobody():
    mx.nd.linalg.potrf(-mx.nd.ones((300, 300)))
    mx.nd.waitall()
def operation():
    variable, large = engine.new_variable(), mx.nd.ones((1000, 100))
    def fail(): raise ZeroDivisionError(large)
    engine.push(fail, writes=[variable])
    engine.wait_for_variable(variable)
def used():
    for i in range(40):
        try: globals()[sys.argv[1]]()
        except (mx.MXNetError, ZeroDivisionError): pass
    mx.nd.ones((2,)).asnumpy()
    mx.nd.waitall()
    gc.collect()
    return services.storage("cpu").stats().bytes_in_use
print(max(used() for _ in range(3)))
"""


@pytest.mark.long
@pytest.mark.parametrize("failing", ["local", "kernel", "nobody", "operation"])
def test_the_memory_comes_back(failing: str) -> None:
    done = run(PROGRAM, failing)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2_000_000, "bytes of more failures than the last few"


ONCE = """
import gc, sys
import mx
from mx_core import services
class Fails(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux): raise ZeroDivisionError
@mx.operator.register("fails")
class FailsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes): return Fails()
def kernel(): mx.nd.Custom(mx.nd.ones(3), op_type="fails").asnumpy()
def device(): mx.nd.ones((1,), ctx=mx.gpu(5))
def main():
    try: globals()[sys.argv[1]]()
    except (mx.MXNetError, ZeroDivisionError): pass
    large = mx.nd.ones((1000, 1000))  # of the frame that the exception has passed
    large.wait_to_read()
main()
gc.collect()
mx.nd.waitall()
print(services.storage("cpu").stats().bytes_in_use)
"""


@pytest.mark.parametrize("failing", ["kernel", "device"])
def test_no_later_failure_is_needed(failing: str) -> None:
    done = run(ONCE, failing)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1_000_000


HELD = """
import traceback
from mx_core import services
engine = services.engine()
def fail(): raise ZeroDivisionError
def failed():
    global variable  # the last failure goes with it
    variable = engine.new_variable()
    try:
        engine.push(fail, writes=[variable])
        engine.wait_for_variable(variable)
    except ZeroDivisionError as error:
        return error
def names(error): return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
kept = [failed() for _ in range(5)]
before = [names(error) for error in kept]
for _ in range(100): failed()
assert before == [names(error) for error in kept] and before[0][-1] == "fail", [names(error) for error in kept]
"""


@pytest.mark.parametrize("engine", ["ThreadedEngine", "NaiveEngine"])
def test_an_exception_that_is_held_keeps_its_traceback(engine: str) -> None:
    done = run(HELD, MXNET_ENGINE_TYPE=engine)
    assert done.returncode == 0, done.stderr
