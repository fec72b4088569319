# SPDX-License-Identifier: Apache-2.0
"""Lists of keys in jobs with servers: small values, which travel together, beside large ones."""

from __future__ import annotations

from typing import Any

import pytest

LISTS = """
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
random = np.random.default_rng(3)
shapes = [(3,), (), (0, 2), (41, 7), (1024,), (1025,), (300, 300), *[(64,)] * 90]
types = ["int32" if key % 7 == 3 else "float16" if key % 7 == 5 else "float32" for key in range(len(shapes))]
keys = list(range(len(shapes)))

def arrays(values):
    return [mx.nd.array(value, dtype=dtype) for value, dtype in zip(values, types)]

def check(outs, expected):
    for key, (out, value) in enumerate(zip(outs, expected)):
        assert (out.asnumpy() == value).all(), (key, out, value)

store.init(keys, arrays([np.zeros(shape) for shape in shapes]))
outs = arrays([np.zeros(shape) for shape in shapes])
for turn in range(30):
    values = [random.integers(-50, 50, (workers, *shape)) for shape in shapes]
    mine, sums = arrays([value[rank] for value in values]), [value.sum(0) for value in values]
    if turn % 3 == 0:
        store.push(keys, mine, priority=turn)
        store.pull(keys, out=outs)
        check(outs, sums)
    elif turn % 3 == 1:
        store.pushpull(keys, mine, out=outs)
        store.pull(keys[:5], out=mine[:5])
        check(mine[:5], sums)
        check(outs, sums)
    else:
        store.pushpull(keys, mine)  # in place
        check(mine, sums)
store.set_optimizer(mx.optimizer.create("test", rescale_grad=1))
store.pushpull(keys, arrays([np.ones(shape) for shape in shapes]), out=outs)
check(outs, [value + workers for value in sums])
print("exact", flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["1", "2"])
def test_lists_of_small_and_large_values(start: Any, servers: str) -> None:
    job = start(LISTS, 2, "-s", servers)
    assert job.wait(150) == 0, job.text
    job.wait_for("exact", 2)
