# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm layers that do not depend on each other, more of them than a device has threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
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


@pytest.mark.parametrize("workers", ["1", "3"])
def test_layers_that_wait_leave_their_threads_to_others(workers: str) -> None:
    env = os.environ | {"MX_CPU_WORKER_NTHREADS": workers, "MX_SYNC_TIMEOUT": "30"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "joined\n", done.stderr
