# SPDX-License-Identifier: Apache-2.0
"""What the store `nccl` says where something is missing; `on_gpu/stores.py` uses it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from testkit.fake_machine import Machine

PROGRAM = """
import mx_kvstore
from mx_core.errors import MXNetError
try:
    mx_kvstore.create("nccl")
except MXNetError as error:
    print(error)
"""
pytestmark = pytest.mark.skipif(find_spec("mx_kvstore") is None, reason="mx-kvstore is not installed")


def test_no_nccl(machine: Machine, tmp_path: Path) -> None:
    said = machine.run(PROGRAM, MX_NCCL=str(tmp_path / "libnccl.so"))
    assert "NCCL (sums over NVIDIA GPUs) was not found; pip install 'nvidia-nccl-cu13>=2.27'. Tried" in said


def test_a_library_that_is_no_nccl(machine: Machine) -> None:
    library = machine.environment["MX_NVRTC"]
    assert f"NCCL: {library} has no ncclGetVersion" in machine.run(PROGRAM, MX_NCCL=library)


def test_no_gpu(machine: Machine) -> None:
    said = machine.run(PROGRAM, FAKE_CUDA_DEVICES="0")
    assert "gpu(0) cannot be used: the NVIDIA driver found no GPU" in said


@pytest.mark.long
def test_groups_of_gpus_that_overlap_enqueue_one_after_the_other(machine: Machine) -> None:
    program = """
import threading
import mx_kvstore
from mx_core import gpu
from mx_ndarray import nd
def work(first):
    store, gpus = mx_kvstore.create("nccl"), [gpu(first), gpu(first + 1)]
    store.init("w", nd.zeros((3,), ctx=gpus[0]))
    for step in range(40):
        given = [nd.ones((3,), ctx=ctx) for ctx in gpus]
        store.pushpull("w", given, out=given)
        assert [x.asnumpy().tolist() for x in given] == [[2] * 3] * 2
    done.append(first)
done = []
threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(done))
"""
    settings = {"FAKE_CUDA_DEVICES": "3", "FAKE_NCCL_GROUP_MICROSECONDS": "300"}
    assert machine.run(program, **settings) == "[0, 1]\n"
