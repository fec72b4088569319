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


FAILING = """
import os
import mx

store = mx.kv.create("dist_sync")
keys = list(range(3))
store.init(keys, [mx.nd.zeros((4,)) for _ in keys])

class Fails(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ValueError("no gradient")

@mx.operator.register("fails")
class FailsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Fails()

gradients = [mx.nd.ones((4,)) for _ in keys]
if store.rank == 1 or os.environ["WHERE"] == "all":
    gradients[1] = mx.nd.Custom(gradients[1], op_type="fails")
listed = os.environ["HOW"] == "listed"
for turn in range(2):
    for some in [keys] if listed else [[key] for key in keys]:
        store.push(some, [gradients[key] for key in some])
    outs = [mx.nd.zeros((4,)) for _ in keys]
    for key in keys:
        store.pull(key, out=outs[key])
    for key, out in zip(keys, outs):
        try:
            print("value", turn, out.asnumpy()[0], flush=True)
        except Exception as error:
            print("error", error, flush=True)
    gradients = [mx.nd.full((4,), 10.0) for _ in keys]
"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["listed", "each"])
def test_a_push_after_one_that_failed_is_not_summed_with_that_of_others(start: Any, how: str) -> None:
    job = start(FAILING, 2, "-s", "1", HOW=how, WHERE="one")
    assert job.wait(150) != 0, job.text
    assert "push 2 of worker 1 came, and push 1 has not" in job.text
    assert "value 1 11.0" not in job.text


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_after_a_push_that_failed_in_all_workers_the_job_goes_on(start: Any, workers: int) -> None:
    job = start(FAILING, workers, "-s", "1", HOW="listed", WHERE="all")
    assert job.wait(150) == 0, job.text
    job.wait_for(f"value 1 {10 * workers}.0", 3 * workers)
