# SPDX-License-Identifier: Apache-2.0
"""A failure anywhere in a chain of operators reaches whoever looks, whatever the failure, the look and the engine.

All combinations of twenty places, four kinds of failure, seven looks and three engines nightly; the ends by default.
"""

from __future__ import annotations

import json

import pytest

from testkit.fresh import run

pytestmark = pytest.mark.long

PROGRAM = """
import gc, json, os, sys, tempfile
import mx
LENGTH = 20
class Raises(mx.operator.CustomOp):
    def __init__(self, error): self.error = error
    def forward(self, is_train, req, in_data, out_data, aux): raise self.error("on purpose")
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux): raise self.error("on purpose")
@mx.operator.register("raises")
class RaisesProp(mx.operator.CustomOpProp):
    def __init__(self, error):
        super().__init__(need_top_grad=True)
        self.error = {"ZeroDivisionError": ZeroDivisionError, "MemoryError": MemoryError,
                      "KeyboardInterrupt": KeyboardInterrupt}[error]
    def create_operator(self, ctx, shapes, dtypes): return Raises(self.error)
KINDS = {
    "an operator in Python": (lambda x: mx.nd.Custom(x, op_type="raises", error="ZeroDivisionError"), ZeroDivisionError),
    "a kernel": (lambda x: mx.nd.linalg.potrf(-x), mx.MXNetError),
    "memory": (lambda x: mx.nd.Custom(x, op_type="raises", error="MemoryError"), MemoryError),
    "Ctrl-C": (lambda x: mx.nd.Custom(x, op_type="raises", error="KeyboardInterrupt"), KeyboardInterrupt),
}
path = tempfile.mkdtemp() + "/a.params"
def chain(fail, position):
    x = mx.nd.ones((2, 2)); x.attach_grad()
    with mx.autograd.record():
        y = x
        for i in range(LENGTH): y = fail(y) if i == position else y * 2
    return x, y
def copied(x, y):
    z = mx.nd.zeros((2, 2)); y.copyto(z); z.asnumpy()
def gradient(x, y):
    y.backward(); x.grad.asnumpy(); mx.nd.waitall()
LOOKS = {
    "asnumpy": lambda x, y: y.asnumpy(),
    "wait_to_read": lambda x, y: y.wait_to_read(),
    "waitall": lambda x, y: mx.nd.waitall(),
    "backward": gradient,
    "save": lambda x, y: mx.nd.save(path, y),
    "copyto": copied,
}
lost, tried = [], 0
for position in map(int, sys.argv[1:]):
    for kind, (fail, error) in KINDS.items():
        for look in [*LOOKS, "nobody, until waitall"]:
            tried += 1
            seen = None
            try:
                x, y = chain(fail, position)
                if look in LOOKS:
                    LOOKS[look](x, y)
                else:
                    del x, y
                    gc.collect()
                    mx.nd.waitall()
            except error as found:
                seen = f"{found} {getattr(found, '__notes__', '')}"
            except BaseException as found:
                seen = None
                lost.append([position, kind, look, f"{type(found).__name__}: {found}"])
                continue
            if seen is None:
                lost.append([position, kind, look, "nothing was raised"])
            elif os.environ["MX_ENGINE_TYPE"] != "NaiveEngine" and "in operator" not in seen:
                lost.append([position, kind, look, f"no operator is named: {seen}"])
            if os.path.exists(path): lost.append([position, kind, look, "a file was written"])
            try:
                mx.nd.waitall()  # further failures of the same cause
            except error:
                pass
            if mx.nd.ones((2, 2)).sum().asscalar() != 4: lost.append([position, kind, look, "wrong afterwards"])
print(json.dumps([tried, lost]))
"""


@pytest.mark.parametrize("engine", ["ThreadedEnginePerDevice", "ThreadedEngine", "NaiveEngine"])
@pytest.mark.parametrize("positions", [(0, 19), pytest.param(range(20), marks=pytest.mark.slow)], ids=len)
def test_nothing_is_lost(positions: range, engine: str) -> None:
    done = run(PROGRAM, *positions, MX_ENGINE_TYPE=engine)
    assert done.returncode == 0, done.stderr
    tried, lost = json.loads(done.stdout)
    assert tried == len(positions) * 28 and not lost, lost[:10]
