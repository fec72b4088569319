# SPDX-License-Identifier: Apache-2.0
"""Long loops with shapes that change: memory stays flat, and threads and descriptors do not add up.

Engines have a soak of their own, `packages/mx-engine/tests/test_soak.py`.
"""

from __future__ import annotations

import json

import pytest

from testkit.fresh import run

pytestmark = pytest.mark.long

HEAD = """
import gc, json, logging, os, resource, sys, tempfile
import numpy as np
import mx
from mx_core import services
logging.disable()
os.chdir(tempfile.mkdtemp())
def measured():
    mx.nd.waitall()
    gc.collect()
    mx.nd.waitall()  # memory of what was collected is given back behind what was pushed on it
    return {
        "resident": int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize(),
        "in arrays": services.storage("cpu").stats().bytes_in_use,
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }
def images(net):
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=8, name="conv")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, fix_gamma=False, name="norm"), act_type="relu")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4, name="dense"), name="softmax")
net = images(mx.sym.Variable("data"))
"""

TAIL = """
warm, steps = map(int, sys.argv[1:])
for n in range(warm): step(n)
found = [measured()]
for n in range(warm, warm + steps): step(n)
found.append(measured())
print(json.dumps(found))
"""

#: by name: the loop, how often it runs until its caches are warm (whole rounds of shapes), how often by default, and how often nightly
LOOPS = {
    "training": (
        """
module = mx.mod.Module(net)
module.bind([("data", (4, 3, 9, 9))], [("softmax_label", (4,))])
module.init_params()
module.init_optimizer(optimizer="adam")
metric = mx.metric.create("acc")
def step(n):
    batch, size = n % 5 + 1, n % 7 + 5
    data = mx.io.DataBatch([mx.nd.ones((batch, 3, size, size))], [mx.nd.zeros((batch,))])
    module.forward_backward(data)
    module.update()
    module.update_metric(metric, data.label)
    if n % 50 == 0: metric.reset()
""",
        105,
        105,
        49_980,
    ),
    "buckets": (
        """
def sentences(length):
    data = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=20, output_dim=6, name="embed")
    data = mx.sym.RNN(mx.sym.transpose(data, axes=(1, 0, 2)), mx.sym.Variable("rnn_weight"), mx.sym.zeros((1, 4, 8)),
                      mx.sym.zeros((1, 4, 8)), state_size=8, num_layers=1, mode="lstm", name="rnn")
    data = mx.sym.FullyConnected(mx.sym.mean(data, axis=0), num_hidden=4, name="dense")
    return mx.sym.SoftmaxOutput(data, name="softmax"), ("data",), ("softmax_label",)
module = mx.mod.BucketingModule(sentences, default_bucket_key=12)
module.bind([("data", (4, 12))], [("softmax_label", (4,))])
module.init_params(mx.init.Uniform(0.1))
module.init_optimizer()
def step(n):
    length = n % 10 + 3
    module.forward_backward(mx.io.DataBatch(
        [mx.nd.ones((4, length))], [mx.nd.zeros((4,))], bucket_key=length,
        provide_data=[("data", (4, length))], provide_label=[("softmax_label", (4,))]))
    module.update()
""",
        50, 50, 10_000,
    ),
    "imperative": (
        """
weight = mx.nd.ones((6, 6)); weight.attach_grad()
def step(n):
    x = mx.nd.random.uniform(shape=(n % 31 + 1, 6))
    with mx.autograd.record():
        y = (mx.nd.dot(x, weight)[: n % 3 + 1] * 2).sum()
    y.backward()
    weight[:] = weight - 0.01 * weight.grad
    if n % 100 == 0: weight.asnumpy()
""",
        558,
        930,
        199_950,
    ),
    "new shapes": (
        """
x = mx.nd.ones((40_000,))
def step(n):
    y = (x[: n % 5000 + 1] + 1).reshape((1, -1))
    mx.nd.broadcast_add(y, y).sum().wait_to_read()
""",
        5000, 1000, 30_000,
    ),
    "binding": (
        """
def step(n):
    executor = net.simple_bind(data=(n % 5 + 1, 3, n % 6 + 5, 8))
    executor.forward(is_train=True)
    executor.backward()
    executor.reshape(data=(2, 3, n % 6 + 5, 8), allow_up_sizing=True, partial_shaping=True).forward()
    executor.outputs[0].wait_to_read()
""",
        60,
        60,
        9_990,
    ),
    "cached operator": (
        """
from mx_symbol import CachedOp
cached = CachedOp(mx.sym.tanh(mx.sym.Variable("a")) * mx.sym.Variable("b"))
def step(n):
    a = mx.nd.ones((n % 97 + 1, 3)); a.attach_grad()
    with mx.autograd.record(): y = cached(a, a)
    y.backward()
    a.grad.wait_to_read()
""",
        291,
        291,
        29_973,
    ),
    "iterators": (
        """
from mx_io.im2rec import pack
from mx_io.im2rec.listing import ListEntry
from mx_io import codecs
os.makedirs("images")
for i in range(12):
    with open(f"images/{i}.png", "wb") as file: file.write(codecs.encode(np.full((12, 12, 3), i, np.uint8), ".png"))
pack([ListEntry(i, (float(i % 2),), f"{i}.png") for i in range(12)], "images", "a", pass_through=True)
def step(n):
    shape = (3, n % 3 + 8, n % 3 + 8)
    read = mx.io.ImageRecordIter(path_imgrec="a.rec", data_shape=shape, batch_size=n % 4 + 2, preprocess_threads=2)
    for batch in read: batch.data[0].wait_to_read()
    ahead = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((9, n % 5 + 1)), batch_size=3))
    for batch in ahead: batch.data[0].wait_to_read()
""",
        20, 10, 1000,
    ),
    "files": (
        """
def step(n):
    for suffix in ("params", "npz", "safetensors"):
        mx.nd.save("a." + suffix, {"x": mx.nd.ones((n % 50 + 1, 30)), "y": mx.nd.zeros((n % 7,))})
        mx.nd.load("a." + suffix)["x"].wait_to_read()
    net.save("a.json")
    mx.sym.load("a.json").infer_shape(data=(n % 5 + 1, 3, 9, 9))
""",
        60, 40, 5000,
    ),
    "failures": (
        """
class Broken(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux): raise ZeroDivisionError("soak")
@mx.operator.register("broken")
class BrokenProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes): return Broken()
def step(n):
    for fails in (lambda: mx.nd.Custom(mx.nd.ones((n % 9 + 1,)), op_type="broken").wait_to_read(),
                  lambda: (mx.nd.linalg.potrf(-mx.nd.ones((n % 9 + 1,) * 2)) + 1).wait_to_read(),
                  lambda: mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))),
                  lambda: net.infer_shape(data=(1, 2))):
        try: fails()
        except (mx.MXNetError, ZeroDivisionError): pass
        else: raise SystemExit("nothing failed")
""",
        90,
        90,
        9_990,
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_nothing_grows(loop: str, long: bool) -> None:
    program, warm, few, many = LOOPS[loop]
    steps = many if long else few
    if long:
        warm *= max(1, many // (5 * warm))
    done = run(HEAD + program + TAIL, warm, steps, timeout=1700)
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    for what in ("in arrays", "descriptors"):
        assert after[what] == before[what], (what, before, after)
    assert after["threads"] <= before["threads"] + 4, (
        before,
        after,
    )  # the engine starts them when they are needed
    # allocators keep some of what they are given back
    assert after["resident"] - before["resident"] < 4 << 20, (before, after)
