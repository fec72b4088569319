# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from mx_core.errors import ArgumentError
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
