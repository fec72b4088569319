# SPDX-License-Identifier: Apache-2.0
"""Stores of workers alone: the contract, sums, training."""

from __future__ import annotations

from typing import Any

import pytest

CONTRACT = """
import traceback
import mx
from mx_core.testing import KVStoreContract
from mx_train.optimizer import create

class Suite(KVStoreContract):
    def make_store(self):
        return mx.kv.create(NAME)
    def array(self, values):
        return mx.nd.array(values, dtype=values.dtype)

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


@pytest.mark.long
@pytest.mark.parametrize(("workers", "name"), [(1, "dist_sync"), (2, "dist_device_sync"), (4, "dist_sync")])
def test_contract(start: Any, workers: int, name: str) -> None:
    job = start(f"NAME = {name!r}\n{CONTRACT}", workers)
    assert job.wait() == 0, job.text
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
for turn in range(ROUNDS):
    keys = list(common.permutation(list(shapes)))[: common.integers(1, len(shapes) + 1)]
    for key in keys:
        values = common.integers(-100, 100, (workers, *shapes[key]))
        totals[key] += values.sum(0)
        store.push(key, mx.nd.array(values[rank], dtype=types.get(key, "float32")), priority=int(common.integers(5)))
    if turn % 50 == 0 or turn == ROUNDS - 1:
        for key, out in outs.items():
            store.pull(key, out=out)
            assert (out.asnumpy() == totals[key]).all(), (turn, key)
store.barrier()
print("exact", store)
"""


@pytest.mark.long
@pytest.mark.parametrize(("workers", "memory"), [(3, "1"), pytest.param(3, "0", marks=pytest.mark.slow)])
def test_sums_are_exact(start: Any, workers: int, memory: str) -> None:
    job = start(f"ROUNDS = 150\n{SUMS}", workers, MX_KVSTORE_SHARED_MEMORY=memory)
    assert job.wait() == 0, job.text
    job.wait_for("exact", workers)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sums_are_exact_for_long(start: Any, workers: int) -> None:
    job = start(f"ROUNDS = 10_000\n{SUMS}", workers)
    assert job.wait(850) == 0, job.text
    job.wait_for("exact", workers)


BITS = """
import hashlib
import os
import warnings
import numpy as np
import mx

warnings.simplefilter("error")  # no value is a failure of the job
store = mx.kv.create("dist_sync")
rank = store.rank
own = np.random.default_rng(rank)
digest = hashlib.sha256()
keys = list(range(12))
types = {k: ("float32", "float16", "bfloat16")[k % 3] for k in keys}
shapes = {k: (5 + 40 * k,) for k in keys} | {11: (300_001,)}
for k in keys:
    store.init(k, mx.nd.zeros(shapes[k], dtype=types[k]))
for turn in range(6):
    outs = []
    for k in keys:
        values = mx.nd.array(np.random.default_rng((rank, k, turn)).standard_normal(shapes[k]), dtype=types[k])
        if own.random() < 0.1:
            values.wait_to_read()  # so that other keys are ready together in each run
        outs.append(mx.nd.zeros(shapes[k], dtype=types[k]))
        store.pushpull(k, values, out=outs[-1], priority=-k)
    for k, out in zip(keys, outs):
        digest.update(out.astype("float32").asnumpy().tobytes())
    exact = sum(np.random.default_rng((r, 1, turn)).standard_normal(shapes[1]) for r in range(store.num_workers))
    np.testing.assert_allclose(outs[1].asnumpy(), exact, atol=2e-2)
for k in keys:
    out = mx.nd.zeros(shapes[k], dtype=types[k])
    store.pushpull(k, mx.nd.full(shapes[k], 60000, dtype=types[k]), out=out)
    assert types[k] != "float16" or np.isinf(out.asnumpy()).all(), out
assert (store._rounds._transport is None) == (os.environ["MX_KVSTORE_SHARED_MEMORY"] == "0")
print("bits", digest.hexdigest())
"""


@pytest.mark.long
def test_sums_have_the_same_bits_in_every_run(start: Any) -> None:
    """In shared memory and by MPI."""
    found = set()
    for seed, memory in ((0, "1"), (1, "0")):
        program = BITS.replace("default_rng(rank)", f"default_rng(rank + {9 * seed})")
        job = start(program, 3, MX_KVSTORE_SHARED_MEMORY=memory)
        assert job.wait() == 0, job.text
        found |= set(job.wait_for("bits ([0-9a-f]+)", 3))
    assert len(found) == 1, found


FORMS = """
import mx

store = mx.kv.create("dist_sync")
rank, keys = store.rank, ["a", "b", "c"]
store.init(keys, [mx.nd.zeros((4,))] * 3)
several = [mx.nd.ones((4,), ctx=mx.cpu(i)) for i in range(2)]
outs = [mx.nd.zeros((4,)), mx.nd.zeros((4,), dtype="float64"), [mx.nd.zeros((4,)), mx.nd.zeros((4,), ctx=mx.cpu(1))]]
store.pushpull(keys, [mx.nd.full((4,), rank + 1), mx.nd.full((4,), rank), several], out=outs, priority=3)
pulled = [mx.nd.zeros((4,), dtype="float16") for _ in keys]
store.pull(keys, out=pulled)
for found in ([outs[0], outs[1], outs[2][0]], [outs[0], outs[1], outs[2][1]], pulled):
    print("sums", [float(each.asnumpy()[3]) for each in found])
store.barrier()
"""


@pytest.mark.long
def test_forms_of_arrays_may_be_mixed_in_a_call(start: Any) -> None:
    """One array of the value's type, one target of another type, and two devices."""
    job = start(FORMS, 2)
    assert job.wait() == 0, job.text
    assert job.wait_for(r"sums (.*)", 6) == ["[3.0, 1.0, 4.0]"] * 6


TRAINING = """
import logging
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
    job = start(TRAINING, 2)
    assert job.wait() == 0, job.text
    job.wait_for("trained", 2)
