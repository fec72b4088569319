# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import DataIter, NDArrayIter, PrefetchingIter, ResizeIter

pytestmark = pytest.mark.timeout(30)


def values(source) -> list[list[int]]:
    return [batch.data[0].asnumpy().astype(int).tolist() for batch in source]


def test_resizing_stops_early_or_begins_anew():
    base = NDArrayIter(np.arange(6), batch_size=2)
    longer = ResizeIter(base, 4)
    assert values(longer) == [[0, 1], [2, 3], [4, 5], [0, 1]]
    longer.reset()
    assert values(longer)[0] == [0, 1]
    going_on = ResizeIter(NDArrayIter(np.arange(6), batch_size=2), 2, reset_internal=False)
    assert values(going_on) == [[0, 1], [2, 3]]
    going_on.reset()
    assert values(going_on) == [[4, 5], [0, 1]]


def test_prefetching_joins_and_renames():
    parts = [NDArrayIter(np.arange(6) + k, np.arange(6) * k, batch_size=2) for k in (0, 100)]
    source = PrefetchingIter(
        parts,
        rename_data=[{"data": "left"}, {"data": "right"}],
        rename_label=[{}, {"softmax_label": "other"}],
    )
    assert [d.name for d in source.provide_data + source.provide_label] == [
        "left",
        "right",
        "softmax_label",
        "other",
    ]
    for _ in range(2):
        batches = list(source)
        assert [b.data[1].asnumpy().tolist() for b in batches] == [[100, 101], [102, 103], [104, 105]]
        assert len(batches[0].label) == 2
        source.reset()


class Failing(DataIter):
    provide_data = provide_label = [("data", (1,))]

    def next(self):
        raise ValueError("from the thread")


def test_an_error_in_the_thread_arrives_at_the_consumer():
    source = PrefetchingIter(Failing(1))
    with pytest.raises(ValueError, match="from the thread"):
        source.next()


def test_iterators_of_different_length_are_noticed():
    source = PrefetchingIter([NDArrayIter(np.arange(n), batch_size=2) for n in (4, 6)])
    with pytest.raises(ArgumentError, match="2 iterators of equal length"):
        list(source)
    with pytest.raises(ArgumentError, match="at least one iterator"):
        PrefetchingIter([])


def test_the_batch_that_was_given_last():
    source = PrefetchingIter(NDArrayIter(np.arange(4), batch_size=2))
    assert source.current_batch is None
    batch = next(source)
    assert source.current_batch is batch


def test_after_closing_it_says_so():
    source = PrefetchingIter(NDArrayIter(np.arange(8), batch_size=2))
    source.next()
    source.close()
    for use in (source.next, source.reset):
        with pytest.raises(
            MXNetError, match=r"\[PrefetchingIter\] expected an open iterator, got one that was closed"
        ):
            use()


class Waiting(NDArrayIter):
    """Waits for a word before each batch but the first."""

    def __init__(self):
        super().__init__(np.arange(8), batch_size=2)
        self.begun, self.go = threading.Event(), threading.Event()

    def next(self):
        if self.cursor >= 0:
            self.begun.set()
            assert self.go.wait(20)
        return super().next()


def test_who_waits_for_a_batch_is_told_that_another_thread_closes_it():
    inner = Waiting()
    source = PrefetchingIter([inner, inner])  # the first thread waits; what the second one gets is not used
    assert inner.begun.wait(10)
    closer = threading.Thread(target=source.close)
    closer.start()
    while not source._threads.closed:
        time.sleep(0.001)
    inner.go.set()
    closer.join()
    with pytest.raises(MXNetError, match="got one that was closed"):
        source.next()


def in_child(do) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # instead of waiting for ever
        os._exit(0 if do() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_goes_on_with_threads_of_its_own():
    source = PrefetchingIter(NDArrayIter(np.arange(8), batch_size=2))
    assert source.next().data[0].asnumpy().tolist() == [0, 1]
    source._pending[0].result()
    assert (
        in_child(
            lambda: (
                values(source) == [[2, 3], [4, 5], [6, 7]] and not source.reset() and len(values(source)) == 4
            )
        )
        == 0
    )
    assert values(source) == [[2, 3], [4, 5], [6, 7]]
    with pytest.raises(StopIteration):
        source.next()
    assert in_child(lambda: values(source) == []) == 0


def test_a_child_that_was_forked_while_a_batch_was_made_says_so_until_reset():
    inner = Waiting()
    source = PrefetchingIter(inner)
    source.next()
    assert inner.begun.wait(10)

    def child() -> bool:
        for _ in range(2):
            with pytest.raises(
                MXNetError, match=r"forked while a thread was making a batch: call reset\(\) in the child"
            ):
                source.next()
        inner.go.set()
        source.reset()
        return values(source) == [[0, 1], [2, 3], [4, 5], [6, 7]]

    assert in_child(child) == 0
    inner.go.set()
    assert values(source) == [[2, 3], [4, 5], [6, 7]]
