# SPDX-License-Identifier: Apache-2.0
"""A seed gives the same bits, whatever engine and however many workers compute them, in any process."""

from __future__ import annotations

import pytest

from testkit.fresh import run

TRAINING = """
import hashlib, logging, sys
import numpy as np
import mx
logging.disable()
mx.random.seed(7)
np.random.seed(7)
def perceptron(x):
    return mx.sym.Dropout(mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(x), num_hidden=32), act_type="relu"), p=0.3)
def convolutions(x):
    x = mx.sym.BatchNorm(mx.sym.Convolution(x, kernel=(3, 3), num_filter=8), fix_gamma=False)
    return mx.sym.flatten(mx.sym.Pooling(mx.sym.Activation(x, act_type="relu"), kernel=(2, 2), stride=(2, 2)))
def recurrent(x):
    x = mx.sym.transpose(mx.sym.reshape(x, shape=(0, -3, -1)), axes=(1, 0, 2))
    x = mx.sym.RNN(x, mx.sym.Variable("rnn_weight"), mx.sym.zeros((1, 8, 12)), mx.sym.zeros((1, 8, 12)), state_size=12, num_layers=1, mode="lstm")
    return mx.sym.mean(x, axis=0)
net = {"perceptron": perceptron, "convolutions": convolutions, "recurrent": recurrent}[sys.argv[1]](mx.sym.Variable("data"))
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4), name="softmax")
values = np.random.RandomState(3).uniform(-1, 1, (32, 3, 8, 8)).astype(np.float32)
data = mx.io.NDArrayIter(values, np.arange(32) % 4, batch_size=8, shuffle=True)
module = mx.mod.Module(net)
module.fit(data, num_epoch=3, optimizer="adam", initializer=mx.init.Uniform(0.1))
digest = hashlib.sha256()
for _, array in sorted(module.get_params()[0].items()):
    digest.update(array.asnumpy().tobytes())
print(digest.hexdigest())
"""
SETTINGS = [
    {"MXNET_ENGINE_TYPE": engine, "MXNET_CPU_WORKER_NTHREADS": workers}
    for engine in ("NaiveEngine", "ThreadedEngine", "ThreadedEnginePerDevice")
    for workers in ("1", "2", "4")
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("net", ["perceptron", "convolutions", "recurrent"])
@pytest.mark.parametrize("settings", [SETTINGS[::4], pytest.param(SETTINGS, marks=pytest.mark.slow)], ids=len)
def test_a_training_gives_the_same_bits(net: str, settings: list[dict[str, str]]) -> None:
    results = [run(TRAINING, net, **chosen) for chosen in settings]
    assert all(done.returncode == 0 for done in results), results[0].stderr
    assert len({done.stdout for done in results}) == 1
