# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm where a device has several at once: more layers than threads, gradients of several steps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

LAYERS = """
import numpy as np
from mx_core import cpu
from mx_ndarray import autograd, nd

LAYERS, contexts, rng = 8, [cpu(0), cpu(1)], np.random.default_rng(3)
kept = [[[nd.full((4,), v, ctx=c) for v in (1, 0, 0, 1)] for c in contexts] for _ in range(LAYERS)]
for step in range(10):
    # Small inputs are there at once, large ones come later, and not alike on both devices.
    sizes = rng.integers(1, 200, (2, LAYERS))
    made = []
    with autograd.train_mode():
        for i, ctx in enumerate(contexts):
            for layer in range(LAYERS):
                x = nd.tanh(nd.random.uniform(shape=(int(sizes[i, layer]), 4, 16, 16), ctx=ctx))
                made.append(nd.contrib.SyncBatchNorm(x, *kept[layer][i], key=f"layer{layer}", ndev=2))
    for layer in range(LAYERS):
        both = np.concatenate([made[layer].asnumpy(), made[LAYERS + layer].asnumpy()])
        np.testing.assert_allclose(both.mean((0, 2, 3)), 0, atol=1e-4)
        np.testing.assert_allclose(both.var((0, 2, 3)), 1, atol=2e-2)
print("joined")
"""


STEPS = """
import numpy as np
from mx_core import cpu
from mx_ndarray import autograd, nd

contexts, steps, rng = [cpu(0), cpu(1)], range(6), np.random.default_rng(0)
kept = [[nd.full((4,), v, ctx=c) for v in (1, 0, 0, 1)] for c in contexts]

def forward(data):
    x = [nd.array(each, ctx=c) for each, c in zip(data, contexts)]
    for each in x:
        each.attach_grad()
    with autograd.record():
        return x, [nd.contrib.SyncBatchNorm(x[i], *kept[i], key="k", ndev=2) for i in range(2)]

for trial in range(20):
    sizes = rng.integers(1, 60, (6, 2))
    if trial % 2:  # the same batches in all steps
        sizes[:] = sizes[0]
    data, heads = ([[rng.standard_normal((n, 4, 12, 12)).astype("f") for n in row] for row in sizes] for _ in range(2))
    if trial % 2:
        data = [data[0]] * 6
    head = [[nd.array(each, ctx=c) for each, c in zip(row, contexts)] for row in heads]
    recorded = [forward(each) for each in data]
    for step in steps:  # gamma and beta have no gradients, which would order these
        for i in range(2):
            recorded[step][1][i].backward(head[step][i])
    together = [[x.grad.asnumpy() for x in recorded[step][0]] for step in steps]
    for step in steps:
        x, y = forward(data[step])
        autograd.backward(y, head[step])
        for i in range(2):
            np.testing.assert_allclose(together[step][i], x[i].grad.asnumpy(), atol=1e-4)
print("joined")
"""


@pytest.mark.parametrize(("program", "workers"), [(LAYERS, "1"), (LAYERS, "3"), (STEPS, "1"), (STEPS, "4")])
def test_devices_meet_where_they_belong_together(program: str, workers: str) -> None:
    env = os.environ | {"MX_CPU_WORKER_NTHREADS": workers, "MX_SYNC_TIMEOUT": "30"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "joined\n", done.stderr
