# SPDX-License-Identifier: Apache-2.0
"""Iterators that give a list of batches, one for each context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, ShapeError
from mx_io.io import DataBatch, DataDesc, DataIter
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import metric
from mx_train.initializer import Constant
from mx_train.module import Module

BATCH, DEPTH = 8, 5
DATA = np.random.RandomState(0).randn(24, DEPTH).astype("float32")
LABEL = (DATA[:, 0] > 0).astype("float32")


class Batches(DataIter):
    """Three batches, whole or in parts; `pad` examples at the end of the last one are padding."""

    def __init__(self, parts: int, pad: int = 0) -> None:
        super().__init__(BATCH)
        self.parts, self.pad = parts, pad
        self.provide_data = [DataDesc("data", (BATCH, DEPTH))]
        self.provide_label = [DataDesc("softmax_label", (BATCH,))]
        self.reset()

    def reset(self) -> None:
        self._batches = self._make()

    def _make(self) -> Iterator[Any]:
        size = BATCH // self.parts
        for first in range(0, len(DATA), BATCH):
            made = []
            for begin in range(first, first + BATCH, size):
                part = slice(begin, begin + size)
                pad = self.pad if begin + size == len(DATA) else 0
                made.append(DataBatch([nd.array(DATA[part])], [nd.array(LABEL[part])], pad=pad))
            yield made if self.parts > 1 else made[0]

    def next(self) -> Any:
        return next(self._batches)


def made() -> Module:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    return Module(sym.SoftmaxOutput(net, name="softmax"), context=[cpu(0), cpu(1)])


def bound() -> Module:
    module = made()
    batches = Batches(1)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(Constant(0.1))
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    return module


def test_training_and_scores_are_those_of_whole_batches() -> None:
    found = []
    for parts in (1, 2):
        module, seen = made(), metric.CrossEntropy()
        module.fit(
            Batches(parts), num_epoch=3, eval_metric=seen, kvstore=None, initializer=Constant(0.1),
            optimizer_params={"learning_rate": 0.5},
        )  # fmt: skip
        scores = module.score(Batches(parts, pad=3), ["acc", "ce"])
        outputs = module.predict(Batches(parts, pad=3)).asnumpy()
        assert outputs.shape == (len(DATA) - 3, 2)
        found.append((module.get_params()[0]["fc_weight"].asnumpy(), seen.get()[1], scores, outputs))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][3], found[1][3])
    assert found[0][1] == pytest.approx(found[1][1])
    assert [value for _, value in found[0][2]] == pytest.approx([value for _, value in found[1][2]])


def test_steps_are_mxnets() -> None:
    """What MXNet 1.9.1 prints for the same three epochs."""
    module, seen = bound(), metric.create(["acc", "ce"])
    values = []
    for _ in range(3):
        seen.reset()
        for batch in Batches(2):
            module.forward_backward(batch)
            module.update()
            module.update_metric(seen, [part.label for part in batch], pre_sliced=True)
        values.append(seen.get()[1])
    expected = [[0.75, 0.52903586], [0.91666667, 0.2760522], [0.91666667, 0.20874334]]
    np.testing.assert_allclose(values, expected, 1e-5)


def test_parts_of_another_size_bind_anew() -> None:
    module = bound()
    part = DataBatch([nd.array(DATA[:2])], [nd.array(LABEL[:2])])
    module.forward([part, part], is_train=False)
    assert module.get_outputs()[0].shape == (4, 2) and module.data_shapes[0].shape == (4, DEPTH)


def test_lists_that_do_not_fit() -> None:
    module = bound()
    part = DataBatch([nd.array(DATA[:4])], None)
    with pytest.raises(ArgumentError, match="expected 2 batches, one per context, got 3"):
        module.forward([part] * 3)
    with pytest.raises(ShapeError, match=r"expected equal shapes, got \[\[\(4, 5\)\], \[\(3, 5\)\]\]"):
        module.forward([part, DataBatch([nd.array(DATA[:3])], None)])
