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


@pytest.mark.parametrize(
    ("symbol", "result", "said"),
    [
        ("ncclReduce", 1, "ncclReduce: unhandled cuda error (1)"),
        ("ncclBroadcast", 4, "ncclBroadcast: invalid argument (4)"),
        ("ncclGroupEnd", 1, "ncclGroupEnd: unhandled cuda error (1)"),
        ("", 6, "NCCL: remote process exited or there was a network error (6)"),
    ],
    ids=["sum", "copy", "group", "communicator"],
)
def test_a_failure_ends_the_use_of_nccl_on_its_gpus(
    machine: Machine, symbol: str, result: int, said: str
) -> None:
    """What is written fails; communicators are aborted, further calls are refused, all other work goes on."""
    program = f"""
import ctypes, os
import mx_kvstore
from mx_core import gpu
from mx_core.errors import MXNetError
from mx_ndarray import nd
fake = ctypes.CDLL(os.environ["MX_NCCL"])
def given():
    return [nd.full((3,), 2, ctx=gpu(i)) for i in range(2)]
store = mx_kvstore.create("nccl")
store.init("w", nd.zeros((3,), ctx=gpu(0)))
store.pushpull("w", given(), out=(outs := given()))
assert [x.asnumpy().tolist() for x in outs] == [[4] * 3] * 2 and fake.fake_nccl_living() == 2
symbol = {symbol!r}
fake.fake_nccl_fail(symbol.encode(), {result}, 1) if symbol and symbol != "ncclGroupEnd" else None
fake.fake_nccl_fail(b"ncclGroupEnd", {result}, 0) if symbol == "ncclGroupEnd" else None
fake.fake_nccl_break({result}) if not symbol else None
for _ in range(2):
    try:
        store.pushpull("w", given(), out=(outs := given()))
        outs[0].wait_to_read()
        outs[1].wait_to_read()
    except MXNetError as error:
        print(error)
    assert fake.fake_nccl_living() == 0
assert sum(x.asnumpy().sum() for x in given()) == 12
other = mx_kvstore.create("device")
other.init("w", nd.zeros((3,), ctx=gpu(0)))
other.pushpull("w", given(), out=(outs := given()))
assert [x.asnumpy().tolist() for x in outs] == [[4] * 3] * 2
"""
    first, second = machine.run(program).splitlines()
    refused = f"[gpu] NCCL has failed on gpu(0), gpu(1) and is not used there any more: {said}; start the program again"
    assert first == (f"[gpu] {said}" if symbol else refused) or first.endswith(said)
    assert refused in second


def test_gpus_that_nccl_cannot_join_are_tried_again(machine: Machine) -> None:
    program = """
import ctypes, os
import mx_kvstore
from mx_core import gpu
from mx_core.errors import MXNetError
from mx_ndarray import nd
fake = ctypes.CDLL(os.environ["MX_NCCL"])
for fails in (True, False):
    store = mx_kvstore.create("nccl")
    store.init("w", nd.zeros((3,), ctx=gpu(0)))
    fake.fake_nccl_fail(b"ncclCommInitAll", 1, 0) if fails else None
    given = [nd.ones((3,), ctx=gpu(i)) for i in range(2)]
    store.push("w", given)
    out = nd.zeros((3,), ctx=gpu(0))
    try:
        store.pull("w", out=out)
        print(out.asnumpy().tolist())
    except MXNetError as error:
        print(error)
print(fake.fake_nccl_living())
"""
    first, second, living = machine.run(program).splitlines()
    assert "ncclCommInitAll: unhandled cuda error (1)" in first
    assert (second, living) == ("[2.0, 2.0, 2.0]", "2")
