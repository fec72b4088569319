# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: several workers train as one process does with the batches of all of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        find_spec("sklearn") is None, reason="scikit-learn, which has the digits, is not installed"
    ),
]

TRAINING = """
import numpy as np
import mx
from sklearn.datasets import load_digits

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
batch = 64 // workers  # as many steps however many they are
digits = load_digits()
count = len(digits.target) // (batch * workers) * batch * workers
x = (digits.images[:count, None] / 16).astype("float32")
y = digits.target[:count].astype("float32")
own = slice(rank, None, workers)  # so that batch i of all workers together is batch i of one process

def network():
    net = mx.sym.Variable("data")
    for block, filters in enumerate((32, 64), 1):
        net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{block}")
        net = mx.sym.Activation(net, act_type="relu")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=128, name="fc1"), act_type="relu")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="fc2"), name="softmax")

def fit(kvstore, x, y, size):
    mx.random.seed(5)
    np.random.seed(5)
    module = mx.mod.Module(network())
    module.fit(mx.io.NDArrayIter(x, y, size), num_epoch=4, kvstore=kvstore, optimizer="sgd",
               optimizer_params={"learning_rate": 0.05, "momentum": 0.9}, initializer=mx.init.Xavier())
    return module

alone = fit(None, x, y, batch * workers)
together = fit("dist_sync", x[own], y[own], batch)
accuracy = dict(together.score(mx.io.NDArrayIter(x, y, 64), "acc"))["accuracy"]
assert accuracy > 0.9, accuracy
expected, found = alone.get_params()[0], together.get_params()[0]
for name in expected:
    np.testing.assert_allclose(found[name].asnumpy(), expected[name].asnumpy(), rtol=1e-5, atol=1e-5, err_msg=name)
print("trained", rank, accuracy)
"""


@pytest.mark.parametrize(("workers", "servers"), [(2, 0), (4, 0), (2, 2)])
def test_digits_are_learnt_as_by_one_process(start: Any, workers: int, servers: int) -> None:
    job = start(TRAINING, workers, "-s", str(servers))
    assert job.wait(350) == 0, job.text
    job.wait_for("trained", workers)
