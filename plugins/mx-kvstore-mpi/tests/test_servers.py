# SPDX-License-Identifier: Apache-2.0
"""Stores of jobs with servers: the contract, sums, asynchronous pushes, optimizers, states."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import mx
from mx_core.errors import ArgumentError
from mx_kvstore_mpi.described import describe, made
from mx_kvstore_mpi.parts import parts

CONTRACT = """
import traceback
import mx
from mx_core.testing import KVStoreContract

class Suite(KVStoreContract):
    def make_store(self):
        return mx.kv.create("dist_sync")
    def array(self, values):
        return mx.nd.array(values, dtype=values.dtype)
    def optimizer(self):
        return mx.optimizer.create("test", rescale_grad=2)
    def counting(self):
        return mx.optimizer.create("sgd", learning_rate=-1, momentum=1)

suite, failed = Suite(), 0
names = sorted(name for name in dir(suite) if name.startswith("test_"))
for name in names:
    try:
        getattr(suite, name)()
    except BaseException:
        failed += 1
        print("FAILED", name)
        traceback.print_exc()
print(f"rank {suite.make_store().rank}: {len(names) - failed} of {len(names)} pass")
assert not failed and len(names) > 8
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "servers"),
    [(2, 2), pytest.param(1, 1, marks=pytest.mark.slow), pytest.param(4, 3, marks=pytest.mark.slow)],
)
def test_contract(start: Any, workers: int, servers: int) -> None:
    job = start(CONTRACT, workers, "-s", str(servers))
    assert job.wait() == 0, job.text
    assert len(job.wait_for(r"rank \d: (\d+) of \1 pass", workers)) == workers


SUMS = """
import os, time
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
shapes = {"a": (3,), "b": (), "d": (41, 7), "e": (30, 30), "f": (2, 3), "g": (0, 2)}
types = {"d": "int32", "f": "float16"}
for key, shape in shapes.items():
    store.init(key, mx.nd.full(shape, rank + 1, dtype=types.get(key, "float32")))
outs = {key: mx.nd.zeros(shape, dtype=types.get(key, "float32")) for key, shape in shapes.items()}
for key, out in outs.items():
    store.pull(key, out=out)
    assert (out.asnumpy() == 1).all(), (key, out)  # rank 0's
added = {key: mx.nd.zeros(shape) for key, shape in shapes.items()}  # every sum, so that none is overlooked
totals = {key: np.zeros(shape, np.int64) for key, shape in shapes.items()}
common = np.random.default_rng(7)
end, over = time.monotonic() + SECONDS, mx.nd.zeros((1,))
store.init("over", over)
for turn in range(ROUNDS):
    for key in list(common.permutation(list(shapes)))[: common.integers(1, len(shapes) + 1)]:
        values = common.integers(-100, 100, (workers, *shapes[key]))
        store.push(key, mx.nd.array(values[rank], dtype=types.get(key, "float32")), priority=int(common.integers(5)))
        store.pull(key, out=outs[key])
        added[key] += outs[key].astype("float32")
        totals[key] += values.sum(0)
        if turn % 20 == 0:
            assert (outs[key].asnumpy() == values.sum(0)).all(), (turn, key)
    if turn % 100 == 99:  # all end after the same round
        store.pushpull("over", mx.nd.full((1,), rank == 0 and time.monotonic() > end), out=over)
        if over.asscalar():
            break
for key, total in totals.items():
    assert (added[key].asnumpy() == total).all(), key
print("rounds", turn + 1, flush=True)
store = mx.kv.create("dist_device_sync")
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5, rescale_grad=1.0))
store.init("m", mx.nd.zeros((2000,)))
out = mx.nd.zeros((2000,))
weight, momentum = np.zeros(2000), np.zeros(2000)
for turn in range(4):
    if turn == 2:
        name = f"{__file__}.{rank}"
        store.save_optimizer_states(name)
        store.load_optimizer_states(name)
    store.pushpull("m", mx.nd.ones((2000,)) * (rank + turn), out=out)
    gradient = sum(r + turn for r in range(workers))
    momentum = 0.5 * momentum - 0.5 * gradient
    weight += momentum
    np.testing.assert_allclose(out.asnumpy(), weight, rtol=1e-6)
try:
    store.set_optimizer(object())
except mx.MXNetError as error:
    assert "servers know" in str(error), error
store.barrier()
print("exact", store)
"""


@pytest.mark.long
@pytest.mark.parametrize("step", ["100", "1000000"])
def test_sums_and_updates_of_servers(start: Any, step: str) -> None:
    told = {"MXNET_KVSTORE_BIGARRAY_BOUND": "500", "MXNET_KVSTORE_SLICE_THRESHOLD": step}
    job = start(f"ROUNDS, SECONDS = 41, 60\n{SUMS}", 2, "-s", "2", **told)
    assert job.wait() == 0, job.text
    job.wait_for("exact", 2)


STRAIGHT = """
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, shape = store.rank, (40, 30)
keys = [0, 1, 2]
store.init(keys, [mx.nd.zeros(shape)] * 3)
weights = np.zeros((3, *shape), "float32")
common = np.random.default_rng(3)
for turn in range(80):
    if turn == 40:
        store.set_optimizer(mx.optimizer.create("test", rescale_grad=1.0))  # adds
    key, how = int(common.integers(3)), common.integers(5)
    values = common.integers(-9, 9, (2, *shape)).astype("float32")
    weights[key] = values.sum(0) + (weights[key] if turn >= 40 else 0)
    value, out = mx.nd.array(values[rank]), mx.nd.zeros(shape)
    if how == 0:
        store.push(key, value)
    elif how == 1:
        store.pushpull(key, value)  # into what is sent
        out = value
    elif how == 2:
        both = mx.nd.concat(value, mx.nd.zeros(shape), dim=0)
        store.pushpull(key, both[:40], out=both[40:])  # views of one array
        out = both[40:]
    elif how == 3:
        outs = [mx.nd.zeros(shape), mx.nd.zeros(shape)]
        store.pushpull(key, value, out=outs)
        assert (outs[0].asnumpy() == outs[1].asnumpy()).all()
        out = outs[1]
    else:
        store.pushpull(key, value, out=out)
    if how:
        if turn % 3 == 0:
            assert (out.asnumpy() == weights[key]).all(), (turn, how)
        out[:] = -1.0  # the array is the caller's
    for _ in range(int(common.integers(3))):
        other, found = int(common.integers(3)), mx.nd.zeros(shape)
        store.pull(other, out=found)
        if turn % 2:
            assert (found.asnumpy() == weights[other]).all(), (turn, other)
founds = [mx.nd.zeros(shape) for _ in keys]
store.pull(keys, out=founds)
assert all((found.asnumpy() == weight).all() for found, weight in zip(founds, weights))
store.barrier()
print("values", rank)
"""


@pytest.mark.long
@pytest.mark.parametrize("bound", ["500", "1000000"])
def test_a_value_that_went_to_the_caller_alone_is_pulled_from_servers(start: Any, bound: str) -> None:
    job = start(STRAIGHT, 2, "-s", "2", "--deadline", "60", MXNET_KVSTORE_BIGARRAY_BOUND=bound)
    assert job.wait() == 0, job.text
    assert set(job.wait_for(r"values (\d)", 2)) == {"0", "1"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("workers", "servers"), [(2, 1), (4, 2)])
def test_sums_of_servers_are_exact_for_long(start: Any, workers: int, servers: int) -> None:
    """Ten thousand rounds, or those of five minutes: six processes take turns on two cores with those of other tests."""
    told = {"MXNET_KVSTORE_BIGARRAY_BOUND": "500", "MXNET_KVSTORE_SLICE_THRESHOLD": "200"}
    job = start(f"ROUNDS, SECONDS = 10_000, 300\n{SUMS}", workers, "-s", str(servers), **told)
    assert job.wait(600) == 0, job.text
    job.wait_for("exact", workers)
    rounds = {int(each) for each in job.wait_for(r"rounds (\d+)", workers)}
    assert len(rounds) == 1 and min(rounds) >= 300, rounds


PULLED = """
import os
import signal
import mx

store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((4,)))
out = mx.nd.zeros((4,))
store.pushpull("w", mx.nd.ones((4,)), out=out)  # the value goes to the caller alone
assert (out.asnumpy() == 2).all()
for key in ({}, ["w", {}]):
    try:
        store.pull(key, out=[out] * 2 if len(key) else out)
    except mx.MXNetError as error:
        assert "expected an int or a str, got {}" in str(error), error
    else:
        raise AssertionError("no error")
if store.rank == 0:
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            store.pull("w", out=out)
        except mx.MXNetError as error:
            os._exit(3 if "was forked from" in str(error) else 4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
store.barrier()
store = mx.kv.create("dist_async")
store.init("w", mx.nd.zeros((4,)))
store.set_optimizer(mx.optimizer.create("test", rescale_grad=1.0))  # adds
for turn, call in enumerate((store.pushpull, store.sum)):
    call("w", mx.nd.ones((4,)), out=out)
    assert (out.asnumpy() >= turn + 1).all(), call  # its own push at least
    store.barrier()
print("pulled", store.rank)
"""


@pytest.mark.long
def test_what_is_asked_of_servers_is_checked_before(start: Any) -> None:
    """Also `sum` of an asynchronous store gives what the servers have, and a child is refused."""
    job = start(PULLED, 2, "-s", "1", "--deadline", "90")
    assert job.wait() == 0, job.text
    assert set(job.wait_for(r"pulled (\d)", 2)) == {"0", "1"}


BESIDE = """
import time
import mx
from mx_kvstore_mpi import server_store

server_store.in_main_memory = lambda array: array.copy()  # as of values on a device
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((10,)))
store.push("w", mx.nd.zeros((10,)), priority=1)
if store.rank == 1:
    time.sleep(1.0)
for turn in range(4):
    store.push("w", mx.nd.ones((10,)) * turn, priority=turn)
out = mx.nd.zeros((10,))
store.pull("w", out=out)
assert (out.asnumpy() == 6).all(), out
store.barrier()
print("in order", store.rank)
"""


@pytest.mark.long
def test_pushes_of_a_value_on_a_device_come_after_each_other(start: Any) -> None:
    job = start(BESIDE, 2, "-s", "1", "--deadline", "60", MXNET_KVSTORE_SLICE_THRESHOLD="4")
    assert job.wait() == 0, job.text
    assert set(job.wait_for(r"in order (\d)", 2)) == {"0", "1"}


ASYNC = """
import numpy as np
import mx

store = mx.kv.create("dist_async")
target = np.arange(6, dtype="float32").reshape(2, 3)
store.init(3, mx.nd.zeros((2, 3)))
try:
    store.push(3, mx.nd.zeros((2, 3)))
except mx.MXNetError as error:
    assert "call set_optimizer first" in str(error), error
else:
    raise AssertionError("no error")
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.05, rescale_grad=1.0))
weight = mx.nd.zeros((2, 3))
for turn in range(60 * (store.rank + 1)):  # each at its own pace
    store.pull(3, out=weight)
    store.push(3, weight - mx.nd.array(target))
store.barrier()
store.pull(3, out=weight)
np.testing.assert_allclose(weight.asnumpy(), target, atol=0.02)
print("converged", store.type)
"""


@pytest.mark.long
@pytest.mark.parametrize("step", ["4", pytest.param("40000", marks=pytest.mark.slow)])
def test_asynchronous_pushes_converge(start: Any, step: str) -> None:
    job = start(ASYNC, 2, "-s", "1", MXNET_KVSTORE_SLICE_THRESHOLD=step)
    assert job.wait() == 0, job.text
    job.wait_for("converged dist_async", 2)


@pytest.mark.long
def test_asynchronous_stores_need_servers(start: Any) -> None:
    job = start("import mx; mx.kv.create('dist_async')", 1)
    assert job.wait() == 1
    job.wait_for("'dist_async' needs servers, and the job has none; start it as `mx launch -n 1 -s 1")


ORDERS = """
import mx
store = mx.kv.create("dist_sync")
keys = list(range(100))
for key in keys:
    store.init(key, mx.nd.zeros((40_000,)))
outs = {key: mx.nd.zeros((40_000,)) for key in keys}
mx.nd.waitall()
store.barrier()
for key in keys if store.rank == 0 else reversed(keys):
    store.pushpull(key, mx.nd.ones((40_000,)), out=outs[key], priority=-key if store.rank == 0 else key)
assert all((out.asnumpy() == 2).all() for out in outs.values())
print("all keys")
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_workers_may_push_in_different_orders(start: Any, servers: str) -> None:
    job = start(ORDERS, 2, "-s", servers, "--deadline", "20")
    assert job.wait() == 0, job.text
    job.wait_for("all keys", 2)


SLICES = """
import os
import mx
os.environ["MXNET_KVSTORE_SLICE_THRESHOLD"] = str(100 + int(os.environ["MX_KV_RANK"]))
store = mx.kv.create("dist_sync")
try:
    store.init("a", mx.nd.zeros((300,)))
    out = mx.nd.zeros((300,))
    store.pull("a", out=out)
    out.wait_to_read()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
    raise
store.barrier()
"""


@pytest.mark.long
def test_workers_with_other_slices_are_refused(start: Any) -> None:
    job = start(SLICES, 2, "-s", "1", "--deadline", "60")
    words = "key 'a': values travel in slices of 100 elements for worker 0, of 101 for worker 1"
    assert "1" in job.wait_for(rf"refused (\d) ProtocolError .*{words}"), job.text
    assert job.wait(40) != 0


TRANSPOSED = """
import mx
store = mx.kv.create("dist_sync")
try:
    store.init("w", mx.nd.zeros((2, 3) if store.rank == 0 else (3, 2)))
    store.barrier()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
    raise
"""


@pytest.mark.long
def test_first_values_of_other_shapes_are_refused(start: Any) -> None:
    job = start(TRANSPOSED, 2, "-s", "1", "--deadline", "60")
    words = (
        r"key 'w' of shape \(2, 3\) and type float32, worker 1 has key 'w' of shape \(3, 2\) and type float32"
    )
    job.wait_for(rf"refused \d ProtocolError .*{words}", 2)
    assert job.wait(40) != 0


@pytest.mark.long
def test_a_wrong_setting_is_told_at_once(start: Any) -> None:
    job = start("import mx; mx.kv.create('dist_sync')", 2, MX_KVSTORE_TRANSPORT="rdma")
    job.wait_for(r"\[MX_KVSTORE_TRANSPORT\] expected tcp or mpi, got 'rdma'", 2)
    assert job.wait(40) == 1


LOOP = """
import os, time
import mx
store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((100_000,)))
out = mx.nd.zeros((100_000,))
print("pid", os.getpid(), "of", store.rank)
try:
    while True:
        store.pushpull("a", mx.nd.ones((100_000,)), out=out)
        out.wait_to_read()
except mx.MXNetError as error:
    print("survivor", store.rank, "heard", type(error).__name__, error)
    raise
"""


ENDS = """
import os
import mx
store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((3,)))
store.pushpull("a", mx.nd.ones((3,)), out=(out := mx.nd.zeros((3,))))
print("served", out.asnumpy(), flush=True)
os._exit(0)
"""


@pytest.mark.long
def test_a_worker_that_ends_without_a_word_is_named(start: Any) -> None:
    job = start(ENDS, 1, "-s", "1", "--grace", "60")
    job.wait_for("served", 1)
    assert job.wait(60) == 1, job.text
    told = r"mx launch: worker 0 \(process \d+ on .*\) has ended with exit status 0\n"
    assert re.search(told, job.text), job.text


@pytest.mark.long
def test_a_killed_server_is_named(start: Any, gone: Any) -> None:
    job = start(LOOP, 2, "-s", "2")
    job.wait_for(r"pid (\d+) of (\d)", 2)
    launcher = job.process.pid
    children = [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]
    os.kill(job.servers()[0], signal.SIGKILL)
    assert job.wait(40) == 137, job.text
    others = re.findall(r"^(?!\[worker)\S.*", job.text, re.MULTILINE)
    assert len(others) == 1 and others[0].startswith("mx launch: server 0 (process "), others
    heard = re.findall(r"survivor (\d) heard PeerLostError .*server 0 .*killed by signal 9", job.text)
    assert set(heard) == {"0", "1"}, job.text
    gone(children)


def test_values_are_split_as_mxnet_splits_them() -> None:
    assert [part.server for number in range(4) for part in parts(number, 10, 3, 100)] == [0, 1, 2, 0]
    found = parts(5, 1000, 3, 1000)
    assert [(part.server, part.begin, part.end) for part in found] == [
        (0, 0, 333),
        (1, 333, 667),
        (2, 667, 1000),
    ]
    assert len(parts(5, 999, 3, 1000)) == 1 and len(parts(5, 10**9, 1, 1000)) == 1


def test_optimizers_travel_as_names_and_numbers() -> None:
    schedule = mx.lr_scheduler.MultiFactorScheduler([3, 5], factor=0.5, base_lr=0.25)
    optimizer = mx.optimizer.create(
        "adam", lr_scheduler=schedule, beta1=0.75, param_idx2name={0: "w_weight"}, wd=0.01
    )
    optimizer.set_lr_mult({"w_weight": 2.0})
    copy = made(json.loads(json.dumps(describe(optimizer))))
    assert type(copy) is type(optimizer)
    assert vars(copy.lr_scheduler) == vars(schedule) and copy.lr_scheduler is not schedule
    left = ("lr_scheduler", "param_dict", "sym_info")
    expected = {key: value for key, value in vars(optimizer).items() if key not in left}
    assert {key: value for key, value in vars(copy).items() if key not in left} == expected


def test_what_servers_cannot_make_is_refused() -> None:
    class Mine(mx.optimizer.SGD):
        pass

    with pytest.raises(ArgumentError, match="expected an optimizer with a name that servers know, got Mine"):
        describe(Mine())
    optimizer = mx.optimizer.create("sgd")
    optimizer.hidden = object()  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="sgd.hidden: servers get numbers and texts, got object"):
        describe(optimizer)
    told = describe(mx.optimizer.create("sgd"))
    told["attributes"]["__class__"] = "x"
    with pytest.raises(ArgumentError, match="has no attribute '__class__'"):
        made(told)


RATES = """
import mx

store = mx.kv.create("dist_sync")
optimizer = mx.optimizer.SGD(learning_rate=1.0, momentum=0.5)
store.init("a", mx.nd.zeros((3,)))
store.set_optimizer(optimizer)
out = mx.nd.zeros((3,))
store.push("a", mx.nd.ones((3,)))
optimizer.set_learning_rate(0.25)  # after the push, which is still under way
store.pushpull("a", mx.nd.ones((3,)), out=out)
assert (out.asnumpy() == -2 - 1.5).all(), out  # 1.5: half of the first step, whose state stays, and 0.25 * 2
store.init(["b", "c"], [mx.nd.zeros((2,)), mx.nd.zeros((2,), dtype="float16")])
store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
try:
    store.push(["b", "c"], [mx.nd.ones((2,)), mx.nd.ones((2,), dtype="float16")])
except mx.MXNetError as error:
    assert "key 'c': gradients of float32 are compressed" in str(error), error
out = mx.nd.ones((2,))
store.pull("b", out=out)
assert (out.asnumpy() == 0).all(), out  # nothing is pushed then
print("rates", store.rank)
if store.rank == 0:
    out = mx.nd.zeros((3,))
    store.pushpull("a", mx.nd.ones((3,)), out=out)  # worker 1 never does
    try:
        out.wait_to_read()
    except mx.MXNetError as error:
        print("refused", error)
"""


@pytest.mark.long
def test_rates_are_told_and_refused_pushes_change_nothing(start: Any) -> None:
    job = start(RATES, 2, "-s", "1", "--deadline", "60")
    job.wait_for("rates", 2)
    job.wait_for(
        r"refused .*worker 1 \(process [0-9]+ on .*\) has ended with exit status 0 after 2 pushes of key 'a', and "
        "worker 0 waits: push 3"
    )
    job.wait(40)


APART = """
import mx

store = mx.kv.create("dist_async")
store.init("a", mx.nd.zeros((1,)))  # a float has as many bytes as the codes of sixteen
optimizer = mx.optimizer.SGD(learning_rate=1.0)
try:
    if store.rank == 0:
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.set_optimizer(optimizer)
    store.push("a", mx.nd.ones((1,)))
    out = mx.nd.zeros((1,))
    store.pull("a", out=out)
    print(out.asnumpy())
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
"""


@pytest.mark.long
def test_workers_of_which_one_compresses_asynchronously_are_refused(start: Any) -> None:
    job = start(APART, 2, "-s", "1", "--deadline", "60")
    words = r"worker 0: set_gradient_compression \(2bit with threshold 0.5\); worker 1: set_optimizer"
    assert set(job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2)) == {"0", "1"}, job.text
    job.wait(40)


PROFILED = """
import mx

store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((3,)))
store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
if store.rank == 0:
    mx.profiler.set_kvstore_handle(store)
    mx.profiler.set_config(filename=f"{__file__}.json", profile_process="server")
    mx.profiler.set_state("run", profile_process="server")
store.barrier()
store.push("a", mx.nd.ones((3,)))
store.barrier()
if store.rank == 0:
    mx.profiler.dump(profile_process="server")
    mx.profiler.set_config(filename=f"{__file__}/no/folder.json", profile_process="server")
    try:
        mx.profiler.dump(profile_process="server")
    except mx.MXNetError as error:
        print("refused", error)
    out = mx.nd.zeros((3,))
    store.pull("a", out=out)
    print("goes on", out.asnumpy())
"""


@pytest.mark.long
def test_servers_are_profiled(start: Any, tmp_path: Path) -> None:
    job = start(PROFILED, 2, "-s", "1")
    assert job.wait() == 0, job.text
    job.wait_for(r"refused .*server 0: .*Not a directory: .*rank0_folder.json")
    job.wait_for(r"goes on \[-2. -2. -2.\]")
    events = json.loads((tmp_path / "rank0_program0.py.json").read_text())["traceEvents"]
    assert [event for event in events if "sgd" in event["name"]], {event["name"] for event in events}
