# SPDX-License-Identifier: Apache-2.0
"""The store that keeps nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mx_kvstore
from mx_core.context import cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_ndarray import nd


def test_it_sums_and_keeps_nothing() -> None:
    store = mx_kvstore.create("teststore")
    assert (type(store), store.type, store.rank, store.num_workers) == (
        mx_kvstore.TestStore,
        "teststore",
        0,
        1,
    )
    assert not store.is_capable(mx_kvstore.KVStoreBase.OPTIMIZER)
    arrays = [nd.array([1.0, 2.0], ctx=cpu(i)) for i in range(3)]
    store.pushpull("a", arrays)
    assert [array.asnumpy().tolist() for array in arrays] == [[3, 6]] * 3
    made = [nd.zeros((2,)), nd.zeros((2,), ctx=cpu(1))]
    store.pushpull(["a", "b"], [arrays[:2], arrays[2]], out=[made[0], made[1]])
    assert [array.asnumpy().tolist() for array in made] == [[6, 12], [3, 6]]
    assert arrays[0].asnumpy().tolist() == [3, 6]
    store.broadcast(3, arrays[0], out=made)
    assert [array.asnumpy().tolist() for array in made] == [[3, 6]] * 2
    with pytest.raises(MXNetError, match="'teststore' does not run optimizers"):
        store.set_optimizer(None)


def test_what_does_not_fit_changes_nothing() -> None:
    store, two, three = mx_kvstore.TestStore(), nd.ones((2,)), nd.ones((3,))
    for out in (three, [two, three]):
        with pytest.raises(ShapeError, match=r"pushpull\] key 'a': expected shape \(2,\), got \(3,\)"):
            store.pushpull("a", two * 2, out=out)
    with pytest.raises(ShapeError, match=r"broadcast\] key 1: expected shape \(3,\), got \(2,\)"):
        store.broadcast([0, 1], [two * 2, three], out=[two, two])
    with pytest.raises(DTypeError, match="expected float32, got bfloat16"):
        store.pushpull(0, [two, two.astype("bfloat16")])
    with pytest.raises(ArgumentError, match="key 0: expected one value, got 2"):
        store.broadcast(0, [two, two], out=two)
    with pytest.raises(ArgumentError, match="out: expected NDArrays, got ndarray"):
        store.pushpull(0, two, out=np.ones(2))
    assert two.asnumpy().tolist() == [1, 1]
