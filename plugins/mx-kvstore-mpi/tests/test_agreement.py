# SPDX-License-Identifier: Apache-2.0
"""Workers without servers do the same: the order of calls counts, and what differs is told by all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mx
from mx_core.errors import ArgumentError, MXNetError
from mx_kvstore_mpi.agreement import check_draws_nothing, differences, digest, of_optimizer, of_rates
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.rounds import Request, Rounds

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
            "worker 0: the push of key 'a' .*; worker 1: the push of key 'a', which could not begin",
        ),
    ],
)
def test_what_differs_is_told_by_both_workers(start: Any, case: str, words: str) -> None:
    job = start(f"CASE = {case!r}\n{DIFFER}", 2, "--deadline", "30")
    found = job.wait_for(rf"refused (\d) ProtocolError .*{words}", 2, 25.0)
    assert set(found) == {"0", "1"}
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


def _rounds() -> Rounds:
    return Rounds(SimpleNamespace(fault=Fault()))  # type: ignore[arg-type]


def _request(ticket: Any, called: str, ended: list[Any]) -> Request:
    values = np.zeros(2, np.float32)
    return Request(ticket, (called,), 0, values, values, ended.append)


def test_requests_of_a_key_are_handed_out_in_the_order_of_calls() -> None:
    rounds, ended = _rounds(), []
    index = rounds.new_key()
    first, second, third = (rounds.ticket(index, name) for name in ("one", "two", "three"))
    rounds.ask(_request(third, "three", ended))
    rounds.ask(_request(second, "two", ended))
    assert not rounds._has_work()  # the first has not begun: there is nothing to ask the others about
    rounds.ask(_request(first, "one", ended))
    turns = [rounds._common({index: 0})[0].called for _ in range(3)]
    assert turns == ["one", "two", "three"]
    assert not rounds._has_work() and not ended


def test_a_call_that_never_begins_takes_its_turn() -> None:
    rounds, ended = _rounds(), []
    index = rounds.new_key()
    first = rounds.ticket(index, "one")
    rounds.ask(_request(rounds.ticket(index, "two"), "two", ended))
    assert not rounds._has_work()
    del first
    assert rounds._has_work()
    head = rounds._heads[index]
    assert head.called == "one, which could not begin, since what it reads has failed"
    assert rounds._common({index: 0}) == []  # all workers say so
    assert rounds._common({index: 0})[0].called == "two"


def test_a_failure_ends_requests_that_wait_for_their_turn() -> None:
    rounds, ended = _rounds(), []
    index = rounds.new_key()
    first = rounds.ticket(index, "one")
    rounds.ask(_request(rounds.ticket(index, "two"), "two", ended))
    rounds._waiter.fault.set(MXNetError("lost"))
    rounds.ask(_request(first, "one", ended))
    assert [str(each) for each in ended] == ["lost", "lost"]
