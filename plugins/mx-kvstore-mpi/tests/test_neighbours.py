# SPDX-License-Identifier: Apache-2.0
"""Workers of one machine add large arrays where they lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import os
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
large, small = (700, 801), (30, 5)
for key, shape in enumerate((large, small, large)):
    store.init(key, mx.nd.zeros(shape))
random = np.random.default_rng(5)
for turn in range(8):
    values = random.standard_normal((workers, *large)).astype(np.float32)
    total = values[0].copy()
    for value in values[1:]:
        total += value
    gradient, out, again = mx.nd.array(values[rank]), mx.nd.zeros(large), mx.nd.array(values[rank])
    few = mx.nd.full(small, rank + 1)
    store.pushpull(0, gradient, out=out, priority=-turn)
    store.push(1, few)
    store.sum(2, again, out=again)
    kept = mx.nd.zeros(large)
    store.pull(0, out=kept)
    for found in (out, again, kept):
        assert found.asnumpy().tobytes() == total.tobytes(), turn
    assert gradient.asnumpy().tobytes() == values[rank].tobytes()
maps = open("/proc/self/maps").read()
print("shared" if "memfd:mx_storage" in maps else "private")

# what a child writes is its own
mx.nd.waitall()
child = os.fork()
if child == 0:
    out[:] = 7
    os._exit(0 if (out.asnumpy() == 7).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert out.asnumpy().tobytes() == total.tobytes()
store.pushpull(0, gradient, out=out)
assert out.asnumpy().tobytes() == total.tobytes()
print(f"worker {rank} is fine")
"""


def test_a_file_is_that_of_a_neighbour_only_if_it_is_like_the_own_one(tmp_path: Path) -> None:
    from mx_kvstore_mpi.shared import _opened_like

    own, other, short = (os.memfd_create("test") for _ in range(3))
    disk = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    for file in (own, other, disk):
        os.ftruncate(file, 8192)
    found = [_opened_like(own, os.getpid(), file, os.fstat(file).st_ino) for file in (other, short, disk)]
    assert found[0] >= 0 and found[1:] == [-1, -1]
    assert _opened_like(own, os.getpid(), other, os.fstat(own).st_ino) == -1
    assert _opened_like(-1, os.getpid(), other, os.fstat(other).st_ino) == -1
    for file in (own, other, short, disk, found[0]):
        os.close(file)


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 3])
def test_large_arrays_are_added_where_they_lie(start: Any, workers: int) -> None:
    job = start(PROGRAM, workers)
    assert job.wait() == 0, job.text
    assert len(job.wait_for(r"worker \d is fine", workers)) == workers
    assert job.text.count("shared") == workers


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [{"MX_KVSTORE_SHARED_MEMORY": "0"}, {"MXNET_CPU_MEM_POOL_TYPE": "Naive"}],
    ids=["without", "naive"],
)
def test_otherwise_arrays_stay_private(start: Any, more: dict[str, str]) -> None:
    job = start(PROGRAM, 2, **more)
    assert job.wait() == 0, job.text
    assert job.text.count("private") == 2
