# SPDX-License-Identifier: Apache-2.0
"""Stores of whole jobs: the contract, sums, asynchronous pushes, training."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONTRACT = """
import traceback
import mx
from mx_core.testing import KVStoreContract

class Suite(KVStoreContract):
    def make_store(self):
        return mx.kv.create(NAME)
    def array(self, values):
        return mx.nd.array(values, dtype=values.dtype)
    def optimizer(self):
        return mx.optimizer.create("test", rescale_grad=2)
    def counting(self):
        return mx.optimizer.create("sgd", learning_rate=-1, momentum=1)

suite, failed = Suite(), 0
names = sorted(name for name in dir(suite) if name.startswith("test_"))
for name in names:
    try:
        getattr(suite, name)()
    except BaseException:
        failed += 1
        print("FAILED", name)
        traceback.print_exc()
print(f"rank {suite.make_store().rank}: {len(names) - failed} of {len(names)} pass")
assert not failed and len(names) > 8
"""


@pytest.mark.parametrize(
    ("workers", "servers", "name"), [(2, 2, "dist_sync"), (1, 1, "dist_device_sync"), (3, 1, "dist_sync")]
)
def test_contract(start: Any, workers: int, servers: int, name: str) -> None:
    job = start(
        f"NAME = {name!r}\n{CONTRACT}", workers, "-s", str(servers), MXNET_KVSTORE_BIGARRAY_BOUND="1000"
    )
    assert job.wait(300) == 0, job.text
    assert len(job.wait_for(r"rank \d: (\d+) of \1 pass", workers)) == workers


SUMS = """
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
shapes = {"a": (3,), "b": (), "c": (0, 4), "d": (41, 7), "e": (150, 150), "f": (2, 3)}
types = {"d": "int32", "f": "float64"}
for key, shape in shapes.items():
    store.init(key, mx.nd.full(shape, rank + 1, dtype=types.get(key, "float32")))
outs = {key: mx.nd.zeros(shape, dtype=types.get(key, "float32")) for key, shape in shapes.items()}
for key, out in outs.items():
    store.pull(key, out=out)
    assert (out.asnumpy() == 1).all(), (key, out)  # rank 0's
store.set_optimizer(mx.optimizer.create("test"))  # adds every sum to the value, so that none is overlooked
totals = {key: np.ones(shape, np.int64) for key, shape in shapes.items()}
common = np.random.default_rng(7)
for turn in range(200):
    keys = list(common.permutation(list(shapes)))[: common.integers(1, len(shapes) + 1)]
    for key in keys:
        values = common.integers(-100, 100, (workers, *shapes[key]))
        totals[key] += values.sum(0)
        store.push(key, mx.nd.array(values[rank], dtype=types.get(key, "float32")), priority=int(common.integers(5)))
    if turn % 50 == 0 or turn == 199:
        for key, out in outs.items():
            store.pull(key, out=out)
            assert (out.asnumpy() == totals[key]).all(), (turn, key)
store.barrier()
print("exact", store)
"""


@pytest.mark.parametrize(("workers", "servers"), [(1, 1), (2, 2), (4, 2)])
def test_sums_are_exact(start: Any, workers: int, servers: int) -> None:
    job = start(SUMS, workers, "-s", str(servers), MXNET_KVSTORE_BIGARRAY_BOUND="5000")
    assert job.wait(300) == 0, job.text
    job.wait_for("exact", workers)


ASYNCHRONOUS = """
import mx

store = mx.kv.create("dist_async")
assert "async" in store.type
store.init("w", mx.nd.zeros((5,)))
try:
    store.push("w", mx.nd.ones((5,)))
except mx.MXNetError as error:
    assert "set_optimizer" in str(error), error
else:
    raise AssertionError("a push without an optimizer")
store.set_optimizer(mx.optimizer.create("test"))
for turn in range(50):
    store.push("w", mx.nd.ones((5,)))
out = mx.nd.zeros((5,))
store.pull("w", out=out)
assert 50 <= out.asnumpy()[0] <= 50 * store.num_workers, out
store.barrier()
store.pull("w", out=out)
assert (out.asnumpy() == 50 * store.num_workers).all(), out
store.pushpull("w", mx.nd.zeros((5,)), out=out)
print("all", int(out.asnumpy()[0]))
"""


def test_pushes_are_applied_at_once(start: Any) -> None:
    job = start(ASYNCHRONOUS, 2)
    assert job.wait() == 0, job.text
    assert job.wait_for(r"all (\d+)", 2) == ["100", "100"]


COMPRESSED = """
import numpy as np
import mx
from mx_kvstore.compression import Compression

store = mx.kv.create("dist_sync")
n, rank, workers = 3000, store.rank, store.num_workers
store.init("w", mx.nd.zeros((n,)))
store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
how, out = Compression("2bit", 0.5), mx.nd.zeros((n,))
residuals, codes = np.zeros((workers, n), np.float32), np.zeros(how.words(n), np.uint32)
common = np.random.default_rng(1)
for turn in range(20):
    gradients = common.standard_normal((workers, n)).astype(np.float32)
    expected, sent = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for each in range(workers):
        how.compress(gradients[each], residuals[each], codes)
        how.expand(codes, sent)
        expected += sent
    store.pushpull("w", mx.nd.array(gradients[rank]), out=out)
    assert (out.asnumpy() == expected).all(), turn
print("compressed", rank)
"""


def test_compressed_gradients_have_the_bits_of_the_model(start: Any) -> None:
    job = start(COMPRESSED, 2)
    assert job.wait() == 0, job.text
    job.wait_for("compressed", 2)


TRAINING = """
import numpy as np
import mx
from mx import autograd, gluon

store = mx.kv.create("dist_sync")
rank, workers, batch = store.rank, store.num_workers, 16
random = np.random.default_rng(3)
centres = random.standard_normal((10, 1, 8, 8))
labels = random.integers(0, 10, 16 * batch)
images = (centres[labels] + 0.4 * random.standard_normal((len(labels), 1, 8, 8))).astype("float32")
own = slice(rank, None, workers)  # as scripts take their part by kv.rank and kv.num_workers

def network():
    data = mx.sym.Variable("data")
    net = mx.sym.Convolution(data, kernel=(3, 3), num_filter=6, name="conv")
    net = mx.sym.Activation(net, act_type="tanh")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")

def fit(kvstore, x, y, size):
    mx.random.seed(5)
    np.random.seed(5)
    module = mx.mod.Module(network())
    iterator = mx.io.NDArrayIter(x, y, size)
    module.fit(iterator, num_epoch=3, kvstore=kvstore, optimizer="sgd",
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, initializer=mx.init.Xavier())
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}

# Interleaved shares, so that batch i of all workers together is batch i of one process.
together = fit("dist_sync", images[own], labels[own], batch)
alone = fit(None, images, labels, batch * workers)
for name in alone:
    np.testing.assert_allclose(together[name], alone[name], rtol=1e-5, atol=1e-5, err_msg=name)

def train(kvstore, x, y, size, in_store):
    mx.random.seed(9)
    np.random.seed(9)
    net = gluon.nn.Sequential()
    net.add(gluon.nn.Conv2D(6, 3, activation="tanh"), gluon.nn.Flatten(), gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(x[:1]))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore=kvstore,
                            update_on_kvstore=in_store)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for at in range(0, len(x), size):
        with autograd.record():
            value = loss(net(mx.nd.array(x[at : at + size])), mx.nd.array(y[at : at + size]))
        value.backward()
        trainer.step(batch * workers)
    return [p.data().asnumpy() for p in net.collect_params().values()], trainer

alone, _ = train(None, images, labels, batch * workers, None)
for in_store in (True, False):
    together, trainer = train("dist_sync", images[own], labels[own], batch, in_store)
    for one, other in zip(alone, together):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    trainer.save_states(f"{__file__}.{rank}")
    trainer.load_states(f"{__file__}.{rank}")
print("trained", rank)
"""


def test_training_equals_that_of_one_process(start: Any) -> None:
    job = start(TRAINING, 2, "-s", "2")
    assert job.wait(300) == 0, job.text
    job.wait_for("trained", 2)


LATER = """
import mx

store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((4,)))
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=-1, momentum=1))
out, first = mx.nd.zeros((4,)), store.resume()
for step in range(first, first + 3):
    store.pushpull("w", mx.nd.ones((4,)), out=out)
print("steps", first, int(out.asnumpy()[0]))
"""


@pytest.mark.parametrize(("workers", "policy"), [(1, "stop"), (2, "continue")])
def test_a_later_job_goes_on_from_the_files(start: Any, tmp_path: Any, workers: int, policy: str) -> None:
    folder = tmp_path / "servers"
    found = []
    for _ in range(2):
        job = start(LATER, workers, "--folder", str(folder), "--on-loss", policy)
        assert job.wait() == 0, job.text
        found.append(set(job.wait_for(r"steps (\d+ \d+)", workers)))
    assert found == [{f"0 {6 * workers}"}, {f"3 {21 * workers}"}]  # 1 + 2 + 3, and so on


def test_a_later_job_with_another_optimizer_is_told_to_choose(start: Any, tmp_path: Any) -> None:
    words, other = ("--folder", str(tmp_path / "servers")), LATER.replace("momentum=1", "momentum=0.5")
    job = start(LATER, 2, *words)
    assert job.wait() == 0, job.text
    job = start(other, 2, *words)
    assert job.wait() == 1, job.text
    said = (
        "sgd with momentum 1, and this one sets sgd with momentum 0.5; set the same, name another folder, or "
    )
    assert len(job.wait_for(rf"ProtocolError: .*{said}have mx launch --new-optimizer", 2)) == 2
    assert len(job.wait_for(rf"\nmx launch: .*{said}")) == 1, job.text
    job = start(other, 2, *words, "--new-optimizer")
    assert job.wait() == 0, job.text
    assert set(job.wait_for(r"steps (\d+ \d+)", 2)) == {"3 20"}  # 2 + 4 + 6, then 2 + 3 + 3.5


ALONE = """
import mx

store = mx.kv.create("dist_sync")
old, new = mx.nd.zeros((4,)), mx.nd.zeros((4,))
store.init("a", old)
for turn in range(3):
    store.pushpull("a", mx.nd.ones((4,)), out=old)
old.wait_to_read()
print("begins", store.rank)
try:
    if store.rank == 1:
        store.init("b", new)
        if CASE == "push":
            store.pushpull("b", mx.nd.ones((4,)), out=new)
            new.wait_to_read()
        store.barrier()
    else:
        store.pushpull("a", mx.nd.ones((4,)), out=old)
        old.wait_to_read()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
    raise
raise AssertionError("no error")
"""


@pytest.mark.parametrize(("case", "policy"), [("push", "stop"), ("barrier", "restart")])
def test_a_key_that_one_worker_adds_later_is_named_at_once(start: Any, case: str, policy: str) -> None:
    """Each of the two waits for the other one, at different calls; the deadline is far, and no policy helps."""
    job = start(f"CASE = {case!r}\n{ALONE}", 2, "-s", "2", "--deadline", "240", "--on-loss", policy)
    job.wait_for("begins", 2)
    words = "push 4 of key 'a': initialised by worker 1 and not by worker 0: key 'b'; all workers must"
    assert set(job.wait_for(rf"refused (\d) \w+ .*{words}", 2, 60.0)) == {"0", "1"}
    assert job.wait() == 1, job.text
    assert len(job.wait_for(rf"\nmx launch: {words}")) == 1, job.text
    assert "anew" not in job.text
    job.check_nothing_is_left()
