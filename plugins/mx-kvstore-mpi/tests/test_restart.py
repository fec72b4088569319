# SPDX-License-Identifier: Apache-2.0
"""Jobs whose processes are killed, and that are started again: the result of a job that was not killed, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

#: the data of a worker, and what both programs tell
DATA = """
import hashlib, os, time
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
mx.random.seed(5 + rank)
np.random.seed(5 + rank)
draw = np.random.default_rng(3)
x, y = draw.standard_normal((96, 6)).astype("float32"), draw.integers(0, 3, 96)
x, y = x[rank::workers], y[rank::workers]
steps = 0

def checkpoints(*what):
    folder = os.path.join(os.environ["RUNS"], str(rank))
    training = mx.checkpoint.Training(folder, *what, period=int(os.environ["PERIOD"]), kvstore=store)
    print("pid", os.getpid(), "of", rank, "begins after", training.epoch, training.batch, flush=True)
    return training

def step(_=None):
    global steps
    steps += 1
    print("step", steps, flush=True)
    time.sleep(float(os.environ["PAUSE"]))

def end(values):
    digest = hashlib.sha256(b"".join(value.asnumpy().tobytes() for value in values))
    print("digest", digest.hexdigest(), flush=True)
"""

MODULE = """
net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="first")
net = mx.sym.Dropout(mx.sym.Activation(net, act_type="tanh"), p=0.2)
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="last"), name="softmax")
module = mx.mod.Module(net)
training = checkpoints(module)
data = training.watch(mx.io.NDArrayIter(x, y, 8, shuffle=True))
module.fit(
    data, begin_epoch=training.epoch, num_epoch=4, kvstore=store, initializer=mx.init.Xavier(), optimizer="adam",
    optimizer_params={"learning_rate": 0.02}, batch_end_callback=step,
)
end(value for _, value in sorted(module.get_params()[0].items()))
"""

GLUON = """
from mx import autograd, gluon

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, activation="tanh"), gluon.nn.Dropout(0.2), gluon.nn.Dense(3))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore=store)
training = checkpoints(net, trainer)
data = training.watch(gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=8, shuffle=True))
cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(training.epoch, 4):
    for image, label in data:
        with autograd.record():
            loss = cross_entropy(net(image), label)
        loss.backward()
        trainer.step(8 * workers)
        step()
end(each.data() for each in net.collect_params().values())
"""


def check(start: Any, tmp_path: Path, program: str, servers: int, kills: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    moments = random.Random(seed)
    period = str(moments.choice((1, 2, 3)))

    def begin(runs: str, pause: float = 0.0) -> Any:
        told = {"RUNS": str(tmp_path / runs), "PAUSE": str(pause), "PERIOD": period}
        return start(DATA + program, 2, "-s", str(servers), **told)

    calm = begin("calm")
    assert calm.wait() == 0, calm.text
    (expected,) = set(calm.wait_for(r"digest (\w+)", 2))
    for kill in range(kills):
        job = begin("killed", 0.03)
        pids = [int(pid) for pid, _ in job.wait_for(r"pid (\d+) of (\d)", 2)]
        # The first time all have a checkpoint by then.
        job.wait_for("step 5\n" if kill == 0 else f"step {moments.randint(1, 4)}\n", 2)
        time.sleep(0.1 * moments.random())
        os.kill(moments.choice([*pids, *job.servers()]), signal.SIGKILL)
        assert job.wait() == 128 + signal.SIGKILL, job.text
        assert "digest" not in job.text
    last = begin("killed")
    assert last.wait() == 0, last.text
    assert set(last.wait_for(r"digest (\w+)", 2)) == {expected}, last.text
    places = last.wait_for(r"begins after (\d+) (\d+)", 2)
    steps = {
        int(epoch) * 6 + int(batch) for epoch, batch in places
    }  # an epoch has 6: 0 6 and 1 0 are one place
    assert len(steps) == 1 and steps != {0}, last.text


@pytest.mark.long
def test_a_job_that_is_started_again_has_the_same_result(start: Any, tmp_path: Path) -> None:
    check(start, tmp_path, MODULE, 0, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("servers", [0, 2])
@pytest.mark.parametrize("program", ["module", "gluon"])
def test_a_job_that_is_killed_again_and_again_has_the_same_result(
    start: Any, tmp_path: Path, program: str, servers: int
) -> None:
    check(start, tmp_path, {"module": MODULE, "gluon": GLUON}[program], servers, 5)
