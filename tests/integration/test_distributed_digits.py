# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: several workers train as one process does with the batches of all, on each distributed store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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


@pytest.mark.parametrize(
    ("engine", "workers", "servers"), [("mpi", 2, 0), ("mpi", 4, 0), ("mpi", 2, 2), ("ray", 2, 2)]
)
def test_digits_are_learnt_as_by_one_process(engine: str, workers: int, servers: int, tmp_path: Path) -> None:
    pytest.importorskip(f"mx_kvstore_{engine}", reason=f"mx-kvstore-{engine} is not installed")
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed")
    program = tmp_path / "digits.py"
    program.write_text(TRAINING)
    words = ["-n", str(workers), "-s", str(servers), "--engine", engine, sys.executable, str(program)]
    job = subprocess.Popen(
        [sys.executable, "-m", "mx_core.cli", "launch", *words],
        env={**os.environ, "MXNET_CPU_WORKER_NTHREADS": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text, _ = job.communicate(timeout=350)
    finally:
        if job.poll() is None:
            job.send_signal(signal.SIGTERM)
            job.communicate(timeout=30)
    assert job.returncode == 0, text
    assert text.count("] trained") == workers, text
