# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

import mx
from mx.contrib.io import DataLoaderIter
from mx.gluon.data import ArrayDataset, DataLoader
from mx_core.errors import ArgumentError

DATA = np.arange(10, dtype=np.float32).reshape(5, 2)
PAIRS = ArrayDataset(DATA, np.arange(5, dtype=np.float32))


def seen(iterator: DataLoaderIter) -> list[Any]:
    return [(b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.pad, b.index) for b in iterator]


@pytest.mark.parametrize("last", ["keep", "discard"])
def test_batches_of_every_epoch(last: str) -> None:
    iterator = DataLoaderIter(DataLoader(PAIRS, 2, last_batch=last))
    assert [tuple(each) for each in iterator.provide_data] == [("data", (2, 2))]
    assert [tuple(each) for each in iterator.provide_label] == [("softmax_label", (2,))]
    assert iterator.batch_size == 2
    expected = [([[0, 1], [2, 3]], [0, 1], 0, None), ([[4, 5], [6, 7]], [2, 3], 0, None)]
    if last == "keep":
        expected.append(([[8, 9], [0, 0]], [4, 0], 1, None))
    for _ in range(2):
        assert seen(iterator) == expected
        iterator.reset()


def test_element_types() -> None:
    iterator = DataLoaderIter(DataLoader(PAIRS, 2), dtype="float16", data_name="x", label_name="y")
    assert iterator.provide_data[0].dtype == np.float16
    batch = next(iterator)
    assert batch.data[0].dtype == batch.label[0].dtype == np.float16
    assert [iterator.provide_data[0].name, iterator.provide_label[0].name] == ["x", "y"]


def test_loaders_of_anything_but_pairs_are_refused() -> None:
    for data in (ArrayDataset(DATA), ArrayDataset(DATA, DATA, DATA)):
        with pytest.raises(ArgumentError, match="expected batches of data and label"):
            DataLoaderIter(DataLoader(data, 2))
    with pytest.raises(ArgumentError, match="got no batch"):
        DataLoaderIter(DataLoader(PAIRS, 9, last_batch="discard"))


def test_a_module_trains_with_it() -> None:
    x = np.random.RandomState(0).uniform(-1, 1, (64, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    module = mx.mod.Module(net)
    iterator = DataLoaderIter(DataLoader(ArrayDataset(x, y), 10))
    module.fit(iterator, num_epoch=20, optimizer="adam", optimizer_params={"learning_rate": 0.1})
    assert module.score(iterator, "acc")[0][1] > 0.95
