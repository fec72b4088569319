# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from mx_core.errors import MXNetError
from mx_io.iterators.prefetch import Prefetcher

pytestmark = pytest.mark.timeout(60)

SLOTS = 5


def make(fill: Callable, threads: int = 3, depth: int = 2) -> Prefetcher[int, list]:
    return Prefetcher(lambda plan: [None] * SLOTS, fill, lambda plan: SLOTS, threads, depth)


def tens(plan: int, out: list, begin: int, end: int, stopped: Callable[[], bool]) -> None:
    for slot in range(begin, end):
        out[slot] = 10 * plan + slot


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 11])
@pytest.mark.parametrize("depth", [1, 4])
def test_batches_are_whole_and_in_order(threads, depth):
    def slow(plan, out, begin, end, stopped):
        time.sleep(0.002 * ((plan * 7 + begin) % 3))
        tens(plan, out, begin, end, stopped)

    source = make(slow, threads, depth)
    for epoch in range(2):
        source.start(iter(range(epoch, 12)))
        got = []
        with pytest.raises(StopIteration):
            while True:
                got.append(source.next())
        assert got == [(plan, [10 * plan + i for i in range(SLOTS)]) for plan in range(epoch, 12)]
    source.close()


def test_no_more_than_depth_batches_are_begun():
    begun = []

    def note(plan, out, begin, end, stopped):
        begun.append(plan)

    source = make(note, depth=3)
    source.start(iter(range(100)))
    source.next()
    source.close()
    assert max(begun) <= 3


def test_an_error_waits_in_its_batch_and_is_raised_until_the_next_epoch():
    def failing(plan, out, begin, end, stopped):
        if plan == 2 and begin == 0:
            raise ValueError("batch 2")
        tens(plan, out, begin, end, stopped)

    source = make(failing)
    source.start(iter(range(5)))
    assert [source.next()[0] for _ in range(2)] == [0, 1]
    for _ in range(3):
        with pytest.raises(ValueError, match="batch 2"):
            source.next()
    source.start(iter(range(3, 5)))
    assert source.next()[0] == 3
    source.close()


def test_starting_anew_stops_what_is_being_filled():
    begun, left = threading.Event(), threading.Event()

    def endless(plan, out, begin, end, stopped):
        begun.set()
        while not stopped():
            time.sleep(0.001)
        left.set()

    source = make(endless, threads=1)
    source.start(iter([0]))
    assert begun.wait(10)
    source.start(iter(()))
    assert left.wait(10)
    with pytest.raises(StopIteration):
        source.next()
    source.close()


def test_a_closed_one_says_so():
    source = make(tens)
    source.start(iter(range(6)))
    source.close()
    for use in (source.next, lambda: source.start(iter(()))):
        with pytest.raises(MXNetError, match="got one that was closed"):
            use()


def test_a_forked_child_goes_on_at_the_same_batch():
    source = make(tens)
    source.start(iter(range(6)))
    assert source.next()[0] == 0
    child = os.fork()
    if child == 0:
        rest = [source.next() for _ in range(5)]
        os._exit(0 if rest == [(p, [10 * p + i for i in range(SLOTS)]) for p in range(1, 6)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.next()[0] == 1
    source.close()


@pytest.mark.parametrize("how", ["close", "start"])
def test_who_waits_for_a_batch_is_told_when_another_thread_stops_the_epoch(how):
    begun = threading.Event()

    def endless(plan, out, begin, end, stopped):
        begun.set()
        while not stopped():
            time.sleep(0.001)

    source = make(endless)
    source.start(iter(range(5)))
    caught = []

    def consume():
        try:
            source.next()
        except MXNetError as error:
            caught.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert begun.wait(10)
    source.close() if how == "close" else source.start(iter(()))
    consumer.join(10)
    source.close()
    expected = {"close": "got one that was closed", "start": "another thread reset the iterator"}
    assert len(caught) == 1 and expected[how] in caught[0]
