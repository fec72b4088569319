# SPDX-License-Identifier: Apache-2.0
"""A seed gives the same numbers whatever runs them: engine types, numbers of threads, imperative or symbolic."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import hashlib
import mx

mx.random.seed(7)
drawn = [mx.nd.random.uniform(shape=(300, 70)), mx.nd.random.normal(shape=(1000,)),
         mx.nd.random.randint(0, 100, shape=(513,)), mx.nd.random.uniform(shape=(3,))]
mx.random.seed(9, ctx=mx.cpu(0))
drawn.append(mx.nd.random.uniform(shape=(65537,)))
net = mx.sym.Dropout(mx.sym.Variable("x"), p=0.5)
executor = net.simple_bind(mx.cpu(), x=(40, 40))
drawn.append(executor.forward(is_train=True, x=mx.nd.ones((40, 40)))[0])
print(hashlib.sha256(b"".join(array.asnumpy().tobytes() for array in drawn)).hexdigest())
"""


@pytest.mark.timeout(200)
def test_numbers_depend_on_the_seed_alone() -> None:
    digests = set()
    for settings in (
        {"MXNET_ENGINE_TYPE": "NaiveEngine"},
        {"MXNET_CPU_WORKER_NTHREADS": "1", "OMP_NUM_THREADS": "1"},
        {"MXNET_CPU_WORKER_NTHREADS": "7", "OMP_NUM_THREADS": "3"},
        {"MXNET_ENGINE_TYPE": "ThreadedEngine", "MXNET_CPU_WORKER_NTHREADS": "2"},
    ):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout.strip())
    assert len(digests) == 1
