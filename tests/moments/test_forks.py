# SPDX-License-Identifier: Apache-2.0
"""A forked child works, whatever the parent was at; fourteen situations, a few forks each by default, 67 or 300 nightly."""

from __future__ import annotations

import pytest

from testkit.fresh import counted, run

HEAD = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
FORKS = int(sys.argv[1])
def work():
    import mx
    x = mx.nd.ones((4, 4))
    assert (mx.nd.dot(x, x) + x).sum().asscalar() == 80
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    executor = net.simple_bind(data=(2, 4))
    executor.forward(is_train=False)
    executor.outputs[0].wait_to_read()
def child(inside=work):
    pid = os.fork()
    if pid == 0:
        faulthandler.register(signal.SIGALRM)
        signal.alarm(20)  # tells where it hangs
        try:
            inside()
        except BaseException:
            import traceback; traceback.print_exc()
            os._exit(3)
        os._exit(0)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.002)
    os.kill(pid, 9)
    raise SystemExit("the child hangs")
stop = threading.Event()
def beside(function, count=2):
    def main():
        while not stop.is_set():
            function()
    threads = [threading.Thread(target=main, daemon=True) for _ in range(count)]
    for thread in threads: thread.start()
    def end():
        stop.set()
        for thread in threads: thread.join()
    return end
"""

SITUATIONS = {
    "before the first use": "for _ in range(FORKS): child()",
    "idle": "import mx; work()\nfor _ in range(FORKS): child()",
    "pending operations": """
import mx
x = mx.nd.ones((300, 300))
for _ in range(FORKS):
    for _ in range(20): x = mx.nd.dot(x, x) * 1e-3
    child()
    work()
""",
    "a failed operation": """
import mx
for _ in range(FORKS):
    broken = mx.nd.linalg.potrf(-mx.nd.ones((2, 2)))
    child()
try: broken.asnumpy()
except mx.MXNetError: pass
""",
    "inside a recording": """
import mx
for _ in range(FORKS):
    x = mx.nd.ones((3,)); x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
        child()
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2, 2]
""",
    "from a thread": """
import mx
for _ in range(FORKS):
    thread = threading.Thread(target=child); thread.start(); thread.join()
""",
    "beside busy threads": """
import mx; work()
end = beside(lambda: mx.nd.ones((50, 50)).sum().asscalar())
for _ in range(FORKS): child()
end()
""",
    "beside threads that bind": """
import mx; work()
end = beside(work)
for _ in range(FORKS): child()
end()
""",
    "beside threads that drop Python's errors": """
import mx; work()
class Broken(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux): raise ZeroDivisionError
@mx.operator.register("broken")
class BrokenProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes): return Broken()
def fail():
    broken = mx.nd.Custom(mx.nd.ones((2,)), op_type="broken")
    try: broken.wait_to_read()
    except ZeroDivisionError: pass
    else: raise SystemExit("nothing failed")
end = beside(fail)
for _ in range(FORKS): child(lambda: [fail() for _ in range(20)])
end()
""",
    "nested": "import mx; work()\nfor _ in range(FORKS): child(lambda: (work(), child()))",
    "with records open": """
import mx, tempfile
from mx_io.recordio import MXRecordIO
path = tempfile.mkdtemp() + "/a.rec"
with MXRecordIO(path, "w") as file:
    for i in range(50): file.write(b"%d" % i)
reader = MXRecordIO(path, "r")
def read():
    reader.reset()
    assert reader.read() == b"0"
    work()
for _ in range(FORKS):
    reader.reset()
    child(read)
    assert reader.read() == b"0"
""",
    "beside a prefetching iterator": """
import mx; work()
data = mx.io.NDArrayIter(np.ones((64, 3)), batch_size=8)
ahead = mx.io.PrefetchingIter(data)
for _ in range(FORKS):
    child()
    ahead.reset()
    assert ahead.next().data[0].shape == (8, 3)
""",
    "the child saves": """
import mx, tempfile
folder = tempfile.mkdtemp()
x = mx.nd.ones((1000,))
def save():
    mx.nd.save(folder + "/a.params", x + 1)
    assert mx.nd.load(folder + "/a.params")[0].asnumpy()[0] == 2
for _ in range(FORKS): child(save)
""",
}


#: three threads run an executor each, and one cached operator; the child goes on with all of them
PROGRAMS = """
import mx
data, weight = mx.nd.ones((2, 4)), mx.nd.ones((2, 4)) * 0.5
net = mx.sym.FullyConnected(mx.sym.Variable("data"), mx.sym.Variable("weight"), num_hidden=2, no_bias=True)
executors = [net.bind(mx.cpu(), {"data": data, "weight": weight}) for _ in range(3)]
called = mx.nd.CachedOp(net)
def both(executor):
    executor.forward(is_train=False)
    for found in (executor.outputs[0], called(data, weight)): assert found.asnumpy().tolist() == [[2, 2]] * 2
for executor in executors: both(executor)
ends = [beside(lambda executor=executor: both(executor), 1) for executor in executors]
for _ in range(FORKS): child(lambda: [both(executor) for executor in executors * 5])
for end in ends: end()
"""


@pytest.mark.parametrize("forks", counted(3, 300))
def test_the_child_goes_on_with_programs_that_other_threads_were_in(forks: int) -> None:
    done = run(HEAD + PROGRAMS + "\nprint('all is well')", forks, timeout=60 + 20 * forks)
    assert done.returncode == 0 and "all is well" in done.stdout, done.stderr + done.stdout


@pytest.mark.long
@pytest.mark.parametrize("forks", counted(3, 67))
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_child_works(situation: str, forks: int) -> None:
    done = run(HEAD + SITUATIONS[situation] + "\nprint('all is well')", forks, timeout=60 + 20 * forks)
    assert done.returncode == 0 and "all is well" in done.stdout, done.stderr + done.stdout
