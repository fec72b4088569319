# SPDX-License-Identifier: Apache-2.0
"""Workers without servers do the same: the order of calls counts, and what differs is told by all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mx
from mx_core.errors import ArgumentError, MXNetError
from mx_kvstore.exchange import SUM, Exchange, parts_of, push, text_of
from mx_kvstore_mpi.agreement import check_draws_nothing, differences, digest, listed, of_optimizer, of_rates
from mx_ndarray import NDArray
from mx_train.optimizer.svrg import _SVRGOptimizer

OVERTAKING = """
import mx

store = mx.kv.create("dist_sync")
out = mx.nd.zeros((4,))

def late(number):
    # A value that rank 0 still computes when it has made all calls, and rank 1 has at once.
    if store.rank == 1:
        return mx.nd.full((4,), number)
    m = mx.nd.ones((SIZE, SIZE))
    for _ in range(4):
        m = mx.nd.dot(m, m) * 0 + number
    return m[0, :4]

store.init("a", mx.nd.zeros((4,)))
store.pull("a", out=out)
out.wait_to_read()
store.push("a", late(10))  # without an optimizer it writes the value, with one another array
store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
store.push("a", mx.nd.ones((4,)))
store.pull("a", out=out)
assert (out.asnumpy() == 18).all(), out
store.init("b", late(1))
store.push("b", mx.nd.ones((4,)))  # reads nothing that the first value writes
store.pull("b", out=out)
assert (out.asnumpy() == -1).all(), out
for turn in range(5):  # first values and pushes of many keys at once
    keys = list(range(24 * turn, 24 * turn + 24))
    names = [f"k{key}" for key in keys]
    store.init(names, [mx.nd.full((3 + key,), key + store.rank) for key in keys])
    store.push(names, [mx.nd.ones((3 + key,)) for key in keys])
    for key, name in zip(keys, names):
        value = mx.nd.zeros((3 + key,))
        store.pull(name, out=value)
        assert (value.asnumpy() == key - 2).all(), (name, value)
store.barrier()
print("in the order of calls")
try:
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5 + store.rank, momentum=0.9))
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
else:
    raise AssertionError("no error")
"""


@pytest.mark.long
def test_no_call_overtakes_another_one_of_its_key_and_optimizers_are_compared(start: Any) -> None:
    job = start(f"SIZE = 900\n{OVERTAKING}", 2, "--deadline", "20")
    job.wait()
    job.wait_for("in the order of calls", 2, 1.0)
    words = r"worker 0: set_optimizer \(lr 0.5\); worker 1: set_optimizer \(lr 1.5\); all workers"
    assert set(job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2, 1.0)) == {"0", "1"}


DIFFER = """
import mx

store = mx.kv.create("dist_sync")
rank, out = store.rank, mx.nd.zeros((4,))
try:
    store.init("a", mx.nd.zeros((4,)))
    if CASE == "kinds":
        store.init("b" if rank else "c", mx.nd.zeros((4,)))
        store.pull("b" if rank else "c", out=out)
    elif CASE == "rates":
        optimizer = mx.optimizer.SGD(learning_rate=0.5)
        store.set_optimizer(optimizer)
        optimizer.rescale_grad = 1 / (8 + rank)
        store.pushpull("a", mx.nd.ones((4,)), out=out)
    else:
        gradient = mx.nd.ones((4,))
        if rank:
            gradient = mx.nd.random.multinomial(mx.nd.full((4, 2), -1.0)).astype("float32")  # fails
        store.pushpull("a", gradient, out=out)
        if rank:
            try:
                out.wait_to_read()
            except mx.MXNetError:
                pass
            out = mx.nd.zeros((4,))
            store.pushpull("a", mx.nd.ones((4,)), out=out)
    out.wait_to_read()
except mx.MXNetError as error:
    print("refused", rank, type(error).__name__, error)
else:
    raise AssertionError(f"no error: {out}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("kinds", "worker 0: the first value of key 'c'; worker 1: the first value of key 'b'"),
        ("rates", r"rescale_grad 0.125\); worker 1: .*\(rescale_grad 0.1"),
        (
            "gradient",
            "worker 0: the push of key 'a'.*; worker 1: the push of key 'a', which could not begin",
        ),
    ],
)
def test_what_differs_is_told_by_both_workers(start: Any, case: str, words: str) -> None:
    job = start(f"CASE = {case!r}\n{DIFFER}", 2, "--deadline", "30")
    found = job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2, 25.0)
    assert set(found) == {"0", "1"}
    job.wait(40)


ALONE = """
import mx

store = mx.kv.create("dist_sync")
rank, out = store.rank, mx.nd.zeros((4,))
try:
    store.init(["a", "c"], [mx.nd.zeros((4,))] * 2)
    if rank == ONE:
        store.init("b", mx.nd.zeros((4,)))
    if CASE == "barrier":
        store.barrier()
    elif CASE == "set_optimizer":
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    else:
        store.pushpull("c", mx.nd.ones((4,)), out=out)
    out.wait_to_read()
except mx.MXNetError as error:
    print("refused", rank, type(error).__name__, error)
else:
    raise AssertionError(f"no error: {out}")
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
@pytest.mark.parametrize(
    ("case", "one", "words"),
    [
        ("barrier", 1, r"worker 0: .*\(key 'b' not initialised\); worker 1: .*\(key 'b' initialised\)"),
        ("set_optimizer", 0, r"worker 0: .*\(key 'b' initialised\); worker 1: "),
        ("push", 0, r"worker 0: .*\(key 'b' initialised\); worker 1: .*\(key 'b' not initialised\)"),
    ],
)
def test_keys_of_one_worker_are_named(start: Any, servers: str, case: str, one: int, words: str) -> None:
    job = start(f"CASE, ONE = {case!r}, {one}\n{ALONE}", 2, "-s", servers, "--deadline", "60")
    found = job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2, 50.0)
    assert set(found) == {"0", "1"}
    job.wait(40)


APART = """
import logging
import mx
import mx_kvstore_mpi.waiting

logging.basicConfig(format="%(levelname)s %(message)s")
mx_kvstore_mpi.waiting.WARN = 1.0
store = mx.kv.create("dist_sync")
out = mx.nd.zeros((4,))
store.init("a", out)
store.barrier()
try:
    if store.rank == 0:
        store.pushpull("a", mx.nd.ones((4,)), out=out)
        out.wait_to_read()
    else:
        store.barrier()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_who_waits_for_what_is_told_before_the_deadline(start: Any, servers: str) -> None:
    """One worker pushes, and the other one is at a barrier."""
    job = start(APART, 2, "-s", servers, "--deadline", "12")
    pushes = "the push of key 'a'"
    job.wait_for(rf"worker 0\] WARNING waits for \d+ s: {pushes} \(worker 1 waits: barrier", 1, 40.0)
    job.wait_for(rf"worker 1\] WARNING waits for \d+ s: barrier \(worker 0 waits: {pushes}", 1, 10.0)
    job.wait_for(r"refused \d PeerTimeoutError ", 1, 40.0)
    job.wait(40)


ADDED = """
import logging
import mx
import mx_kvstore_mpi.waiting

logging.basicConfig(format="%(levelname)s %(message)s")
mx_kvstore_mpi.waiting.WARN = 1.0
store = mx.kv.create("dist_sync")
old, new = mx.nd.zeros((4,)), mx.nd.zeros((4,))
store.init("a", old)
store.pushpull("a", mx.nd.ones((4,)), out=old)
old.wait_to_read()
try:
    if store.rank == 1:
        store.init("b", new)
        store.pushpull("b", mx.nd.ones((4,)), out=new)
        new.wait_to_read()
    else:
        store.pushpull("a", mx.nd.ones((4,)), out=old)
        old.wait_to_read()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("servers", "new", "more"),
    [
        ("0", "the first value of key 'b'", ""),
        (
            "1",
            "the first call after init of key 'b'",
            "; server 0 (?:serves|waits for worker 1: push 2 of key 'a')",
        ),
    ],
)
def test_a_key_that_one_worker_adds_later_is_told_before_the_deadline(
    start: Any, servers: str, new: str, more: str
) -> None:
    """It waits for the new key, and the other one for an old key."""
    job = start(ADDED, 2, "-s", servers, "--deadline", "12")
    old = "the push of key 'a'"
    job.wait_for(rf"worker 0\] WARNING waits for \d+ s: {old} \(worker 1 waits: {new}{more}\)", 1, 40.0)
    job.wait_for(rf"worker 1\] WARNING waits for \d+ s: {new} \(worker 0 waits: {old}{more}\)", 1, 10.0)
    job.wait_for(r"refused \d PeerTimeoutError .*\(worker \d waits: the ", 1, 40.0)
    job.wait(40)


OTHER_KEYS = """
import logging
import mx
import mx_kvstore_mpi.waiting

logging.basicConfig(format="%(levelname)s %(message)s")
mx_kvstore_mpi.waiting.WARN = 6.0
store = mx.kv.create("dist_sync")
store.init(["a", "b", "c"], [mx.nd.zeros((4,))] * 3)
out = mx.nd.zeros((4,))
store.pushpull("c", mx.nd.ones((4,)), out=out)
out.wait_to_read()
store.pushpull("ab"[store.rank], mx.nd.ones((4,)), out=out)
out.wait_to_read()
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_keys_of_which_each_worker_pushes_another_one_are_told_early_and_last(
    start: Any, servers: str
) -> None:
    job = start(OTHER_KEYS, 2, "-s", servers, "--deadline", "10")
    assert job.wait() == 1, job.text
    server = (
        r"; server 0 waits for worker 0: push 1 of key 'b', and for worker 1: push 1 of key 'a'"
        if int(servers)
        else ""
    )
    other = rf"worker 1 waits: the push of key 'b'{server}"
    job.wait_for(rf"worker 0\] WARNING waits for \d+ s: the push of key 'a' \({other}\)")
    wait = rf"the push of key '(?:a|b)'.*\(worker (?:0|1) waits: the push of key '(?:a|b)'{server}\)"
    job.wait_for(rf"mx launch: worker \d: waited 10 s: {wait}")


THREADS = """
import os, threading, time
import mx

store = mx.kv.create("dist_sync")
old, new, seen = mx.nd.zeros((4,)), mx.nd.zeros((4,)), mx.nd.zeros((4,))
store.init("old", old)
store.pushpull("old", mx.nd.ones((4,)), out=old)
old.wait_to_read()
store.init("new", new)
others = __file__ + ".seen"
if store.rank == 0:
    thread = threading.Thread(target=lambda: store.pushpull("new", mx.nd.ones((4,)), out=new))
    thread.start()
    time.sleep(0.5)  # it waits for worker 1
    store.pull("old", out=seen)
    assert (seen.asnumpy() == 2).all(), seen
    open(others, "w").close()
    store.pushpull("old", mx.nd.ones((4,)), out=old)
    thread.join()
else:
    while not os.path.exists(others):
        time.sleep(0.01)
    store.pushpull("old", mx.nd.ones((4,)), out=old)
    old.wait_to_read()
    store.pushpull("new", mx.nd.ones((4,)), out=new)
assert (old.asnumpy() == 2).all() and (new.asnumpy() == 2).all(), (old, new)
print("summed", store.rank)
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_other_threads_pull_and_push_while_new_keys_are_compared(start: Any, servers: str) -> None:
    """What a pull gives may be what the other worker waits for, and so may a push of another key."""
    job = start(THREADS, 2, "-s", servers, "--deadline", "15")
    assert job.wait() == 0, job.text
    job.wait_for(r"summed (\d)", 2)


def test_of_many_keys_a_message_lists_the_first() -> None:
    assert listed(["'a'", "'b'"]) == "key 'a', key 'b'"
    assert listed([str(key) for key in range(161)]) == "key 0, key 1, key 2, key 3 and 157 more"


@pytest.mark.long
def test_servers_run_no_optimizer_that_another_worker_does_not_have(start: Any) -> None:
    program = """
import mx
store = mx.kv.create("dist_async")
store.init("a", mx.nd.zeros((4,)))
try:
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5 + 0.25 * store.rank))
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
else:
    raise AssertionError("no error")
"""
    job = start(program, 2, "-s", "1", "--deadline", "60")
    words = r"worker 0: set_optimizer \(momentum 0.5\); worker 1: set_optimizer \(momentum 0.75\)"
    assert set(job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2, 50.0)) == {"0", "1"}
    job.wait(40)


def test_random_optimizers_need_servers() -> None:
    with pytest.raises(ArgumentError, match=r"SGLD draws random numbers.*mx launch -n 2 -s 1"):
        check_draws_nothing(mx.optimizer.SGLD(), 2)
    check_draws_nothing(mx.optimizer.SGLD(), 1)
    check_draws_nothing(mx.optimizer.SGD(), 2)


def test_optimizers_are_compared_by_all_their_numbers() -> None:
    def told(**more: Any) -> tuple[str, ...]:
        return of_optimizer(
            mx.optimizer.SGD(**{"learning_rate": 0.1, "param_idx2name": {0: "w", 1: "b"}, **more})
        )

    assert told() == told() == told(learning_rate=np.float64(0.1), param_idx2name={1: "b", 0: "w"})
    schedules = [mx.lr_scheduler.FactorScheduler(step=step, base_lr=0.1) for step in (5, 5, 6)]
    with_schedules = [told(lr_scheduler=each) for each in schedules]
    assert with_schedules[0] == with_schedules[1] != with_schedules[2]
    rated = told(param_dict={0: SimpleNamespace(lr_mult=2.0, wd_mult=1.0)})
    others = [told(momentum=0.5), told(wd=0.1), told(clip_gradient=1.0), told(begin_num_update=3), rated]
    digests = {digest(each) for each in [told(), with_schedules[0], with_schedules[2], *others]}
    assert len(digests) == 8
    inner = [of_optimizer(_SVRGOptimizer("sgd", momentum=momentum)) for momentum in (0.5, 0.9)]
    assert inner[0] != inner[1]
    updaters = [mx.optimizer.get_updater(_SVRGOptimizer("sgd")) for _ in range(2)]
    updaters[1].optimizer.default_opt.set_learning_rate(9)
    assert of_rates(updaters[0]) != of_rates(updaters[1])
    assert of_optimizer(mx.optimizer.Adam())[0] == "optimizer Adam"
    assert of_rates(None) == ()


def test_differences_name_what_differs_and_who_agrees() -> None:
    tellings = [
        ("push", "shape (2,)", "lr 1"),
        ("push", "shape (2,)", "lr 2"),
        ("push", "shape (2,)", "lr 1"),
    ]
    assert differences(tellings) == "workers 0, 2: push (lr 1); worker 1: push (lr 2)"
    assert differences([("init",), ("push", "lr 1")]) == "worker 0: init; worker 1: push (lr 1)"


class Calls:
    """The calls of one worker, which are exchanged as soon as it says so."""

    def __init__(self) -> None:
        self.error = MXNetError("lost")
        self.exchange = Exchange(lambda: MXNetError(*self.error.args))
        self.key = self.exchange.new_key()

    def push(self, name: str, gradient: NDArray) -> NDArray:
        out = mx.nd.zeros(gradient.shape)
        push(
            self.exchange, SUM, self.key, text_of((name, "details")), digest((name,)), 0, (gradient,), (out,)
        )
        return out

    def round(self) -> list[str]:
        """What all workers have ready, of which this is the only one."""
        found = self.exchange.decide(self.exchange.tell())
        for request in found.requests:
            assert request.send is not None
            request.receive[:] = request.send
            assert request.complete(None) and not request.complete(None)
        return [parts_of(request.told)[0] for request in found.requests]


def _late(number: float) -> NDArray:
    """A value that is computed for a while."""
    m = mx.nd.ones((700, 700))
    for _ in range(3):
        m = mx.nd.dot(m, m) * 0 + number
    return m[0, :2]


def test_requests_of_a_key_are_handed_out_in_the_order_of_calls() -> None:
    calls = Calls()
    outs = [calls.push(name, value) for name, value in (("one", _late(1)), ("two", mx.nd.ones((2,)) * 2))]
    assert calls.exchange.ready(20.0)
    assert [calls.round() for _ in range(3)] == [["one"], ["two"], []]
    assert [out.asnumpy().tolist() for out in outs] == [[1, 1], [2, 2]]


def test_a_call_that_never_begins_takes_its_turn() -> None:
    calls = Calls()
    lost = calls.push("one", mx.nd.random.multinomial(mx.nd.full((2, 2), -1.0)).astype("float32"))
    out = calls.push("two", mx.nd.ones((2,)))
    assert calls.exchange.ready(20.0)
    waited, text = calls.exchange.oldest()
    assert waited >= 0 and parts_of(text)[0] == "one, which could not begin, since what it reads has failed"
    assert calls.round() == []  # all workers say so
    assert calls.round() == ["two"] and out.asnumpy().tolist() == [1, 1]
    with pytest.raises(MXNetError):
        lost.wait_to_read()


def test_a_failure_ends_requests_that_wait_and_that_come() -> None:
    calls = Calls()
    outs = [calls.push("one", _late(1)), calls.push("two", mx.nd.ones((2,)))]
    calls.exchange.fail()
    outs.append(calls.push("three", mx.nd.ones((2,))))
    for out in outs:  # each has its own: one that is read is no failure of the others
        with pytest.raises(MXNetError, match="lost"):
            out.wait_to_read()
    assert calls.exchange.idle and not calls.exchange.ready(0.0)


def test_workers_with_other_calls_differ() -> None:
    one, other = Calls(), Calls()
    outs = [one.push("push", mx.nd.ones((2,))), other.push("first value", mx.nd.ones((2,)))]
    assert one.exchange.ready(20.0) and other.exchange.ready(20.0)
    found = one.exchange.decide(np.minimum(one.exchange.tell(), other.exchange.tell()))
    assert found.differs and parts_of(found.told) == ("push", "details") and not found.requests
    for calls in (one, other):
        calls.exchange.fail()
    for out in outs:
        with pytest.raises(MXNetError, match="lost"):
            out.wait_to_read()
