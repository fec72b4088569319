# SPDX-License-Identifier: Apache-2.0
"""Iterators of images that another thread resets or closes, and where memory is short."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mx_core.errors import FileFormatError, MXNetError, OutOfMemoryError
from mx_io.io import ImageSourceIter
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.order import ExampleOrder
from mx_io.iterators.prefetch import Prefetcher
from mx_io.pipeline import Example, Source

pytestmark = pytest.mark.timeout(60)


class Numbers(Source):
    """Twelve images whose pixels are their number."""

    def __init__(self, bad: Sequence[int] = ()) -> None:
        self.bad = set(bad)
        self.closed = 0

    def __len__(self) -> int:
        return 12

    def read(self, positions: Sequence[int]) -> list[Example]:
        if self.bad.intersection(positions):
            raise FileFormatError("it is torn")
        return [Example(np.full((4, 4, 3), i, np.uint8), float(i), i) for i in positions]

    def close(self) -> None:
        self.closed += 1


def made(source: Source, **more: Any) -> ImageSourceIter:
    return ImageSourceIter(source, **{"data_shape": (3, 4, 4), "batch_size": 4, **more})


def elsewhere(do: Callable[[], Any]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def meanwhile(monkeypatch: pytest.MonkeyPatch, batches: Any, do: Callable[[], Any]) -> None:
    """Another thread does something once, after the next batch, or the end, has come and before it is counted."""
    prefetcher = batches._prefetcher
    take = prefetcher.next

    def late() -> Any:
        monkeypatch.setattr(prefetcher, "next", take)
        try:
            return take()
        finally:
            elsewhere(do)

    monkeypatch.setattr(prefetcher, "next", late)


def numbers(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in batch.index[: len(batch.index) - batch.pad]]


def test_a_batch_of_the_epoch_before_a_reset_does_not_count(monkeypatch):
    batches = made(Numbers())
    batches.next()
    meanwhile(monkeypatch, batches, batches.reset)
    with pytest.raises(MXNetError, match="another thread reset the iterator while this one took a batch"):
        batches.next()
    state = batches.state_dict()
    assert state["batches"] == 0
    first = batches.next()
    again = made(Numbers())
    again.load_state_dict(state)
    assert np.array_equal(first.index, again.next().index)
    assert numbers(batches) == numbers(again) == list(range(4, 12))


@pytest.mark.parametrize("taken", [0, 1])
def test_the_end_of_an_epoch_does_not_end_the_next_one(monkeypatch, taken):
    batches = made(Numbers(bad=[0]), on_error="skip", round_batch=False)

    def begin() -> None:
        batches.reset()
        for _ in range(taken):
            batches.next()

    assert len(list(batches)) == 3
    batches.reset()
    for _ in range(3):
        batches.next()
    meanwhile(monkeypatch, batches, begin)
    with pytest.raises(
        StopIteration
    ):  # and not that no example could be read, as of the epoch that has begun
        batches.next()
    assert batches.state_dict()["batches"] == taken
    assert numbers(batches) == list(range(4 if taken else 1, 12))


def test_threads_may_reset_and_close_while_another_takes_batches():
    source = Numbers()
    batches = made(source, preprocess_threads=2)
    stop, taken = threading.Event(), []

    def consume() -> None:
        while not stop.is_set():
            try:
                taken.append(batches.next().index.tolist())
            except StopIteration:
                batches.reset()
            except MXNetError as error:
                assert "another thread reset" in str(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    resets = [threading.Thread(target=lambda: [batches.reset() for _ in range(100)]) for _ in range(2)]
    for thread in resets:
        thread.start()
    for thread in resets:
        thread.join()
    while len(taken) < 3:
        time.sleep(0.001)
    stop.set()
    consumer.join()
    assert all(batch in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]) for batch in taken)
    batches.reset()
    assert batches.state_dict()["batches"] == 0 and numbers(batches) == list(range(12))
    closers = [threading.Thread(target=batches.close) for _ in range(3)]
    for thread in closers:
        thread.start()
    for thread in closers:
        thread.join()
    batches.close()
    assert source.closed == 1, "a source that frees a file twice may free another's"


def test_no_batch_is_lost_where_memory_was_short():
    room = [True]

    def allocate(plan: int) -> list[int]:
        if not room[0]:
            raise MemoryError("no room")
        return [plan]

    batches: Prefetcher[int, list[int]] = Prefetcher(allocate, lambda *_: None, lambda plan: 1, 2, 2)
    batches.start(iter(range(8)))
    found = [batches.next()[0]]
    for _ in range(3):
        room[0] = False
        with pytest.raises(MemoryError, match="no room"):
            batches.next()
        room[0] = True
        found.append(batches.next()[0])
    child = os.fork()
    if child == 0:
        room[0] = False
        try:
            batches.next()
        except MemoryError:
            room[0] = True
        os._exit(0 if [batches.next()[0] for _ in range(4)] == [4, 5, 6, 7] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found += [batches.next()[0] for _ in range(4)]
    assert found == list(range(8))
    batches.close()


@pytest.mark.parametrize("shape", [(1 << 40, 3), (1 << 62, 1 << 40)])
def test_a_batch_that_no_memory_holds_is_explained(shape):
    with pytest.raises(
        OutOfMemoryError, match=r"expected \d+ bytes for a batch of float32 of shape .*smaller batch_size"
    ):
        BufferPool(shape, np.float32, keep=1).take()


def test_batches_that_no_memory_holds_are_errors_of_ours():
    with pytest.raises(OutOfMemoryError, match=r"for a batch of float32 of shape \(\d+, 3, 4, 4\)"):
        made(Numbers(), batch_size=1 << 50)
    order = ExampleOrder(5, 1 << 50)
    plans = order.epoch()
    for _ in range(2):  # and not the end of the epoch
        with pytest.raises(
            OutOfMemoryError, match=r"the numbers of 1125899906842624 examples of 5, .*smaller batch_size"
        ):
            next(plans)
