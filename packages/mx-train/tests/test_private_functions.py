# SPDX-License-Identifier: Apache-2.0
"""Functions of MXNet's files that programs with modules of their own import: a training made of them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core import cpu
from mx_core.errors import ArgumentError, ShapeError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import executor_manager, model, optimizer
from mx_train.module import base_module, executor_group


@pytest.mark.parametrize("kvstore", [None, "local", "device", "alone"])
def test_updates_sum_over_devices_in_a_store_or_in_none(kvstore: Any) -> None:
    alone = kvstore == "alone"
    devices = 1 if alone or kvstore is None else 2
    values = {"w": nd.array([1.0, 2.0]), "fixed": nd.array([5.0])}
    weights = [[value.copyto(cpu(i)) for i in range(devices)] for value in values.values()]
    grads: list[list[Any]] = [[nd.array([1.0, 1.0], ctx=cpu(i)) for i in range(devices)], [None] * devices]
    names = list(values)
    store, in_store = model._create_kvstore("device" if alone else kvstore, devices, values)
    assert (store is None, in_store) == (devices == 1, devices == 2)
    made = optimizer.create("sgd", learning_rate=0.5)
    if store is not None:
        model._initialize_kvstore(store, weights, values, names, in_store)
        store.set_optimizer(made)
        model._update_params_on_kvstore(weights, grads, store, names)
    else:
        model._update_params(weights, grads, optimizer.get_updater(made), devices)
    for array in weights[0]:
        assert array.asnumpy().tolist() == [1 - 0.5 * devices, 2 - 0.5 * devices]
    assert all(array.asnumpy().tolist() == [5] for array in weights[1])


def test_updates_of_each_device_by_the_sum_of_a_store() -> None:
    weights = [[nd.zeros((2,), ctx=cpu(i)) for i in range(2)] for _ in range(2)]
    grads: list[list[Any]] = [[nd.ones((2,), ctx=cpu(i)) * (k + 1) for i in range(2)] for k in range(2)]
    store = mx_kvstore.create("local")
    seen: list[int] = []

    def updater(indices: list[int], gradients: list[Any], arrays: list[Any]) -> None:
        seen.extend(indices)
        for gradient, array in zip(gradients, arrays, strict=True):
            array[:] = array - gradient

    values = {"a": weights[0][0], "b": weights[1][0]}
    model._initialize_kvstore(store, weights, values, ["a", "b"], False)
    model._update_params(weights, grads, updater, 2, store, ["a", "b"])
    assert seen == [0, 2, 1, 3]
    assert [[array.asnumpy()[0] for array in each] for each in weights] == [[-2, -2], [-4, -4]]


def test_names_of_inputs() -> None:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    base_module._check_input_names(net, ["data"], "data", True)
    told = r"data_names: 'x' is no argument; inputs may be data$"
    with pytest.raises(ArgumentError, match=told):
        base_module._check_input_names(net, ["x"], "data", True)
    with pytest.warns(UserWarning, match=told):
        base_module._check_input_names(net, ["x"], "data", False)
    data, labels = base_module._parse_data_desc(["data"], ["label"], [("data", (2, 3))], [("label", (2,))])
    assert [type(each) for each in (*data, *labels)] == [DataDesc, DataDesc]
    with pytest.raises(ArgumentError, match="data_shapes: expected data, got x"):
        base_module._parse_data_desc(["data"], [], [("x", (2, 3))], None)
    with pytest.warns(UserWarning, match="label_shapes: expected label, got $"):
        assert base_module._parse_data_desc(["data"], ["label"], [("data", (2, 3))], None)[1] is None
    assert [base_module._as_list(each) for each in (None, 1, (1, 2), [1])] == [[], [1], [1, 2], [1]]


def test_callbacks() -> None:
    seen: list[Any] = []
    for callbacks in (None, seen.append, [seen.append, seen.append]):
        base_module._multiple_callbacks(callbacks, 3)
    assert seen == [3, 3, 3]


@pytest.mark.parametrize(
    ("size", "shares", "ends"),
    [(6, [1, 1, 1], [2, 4, 6]), (5, [1, 1], [2, 5]), (7, [1, 2, 1], [2, 6, 7]), (10, [3, 1], [8, 10]), (3, [1], [3])],
)  # fmt: skip
def test_parts_of_a_batch(size: int, shares: list[float], ends: list[int]) -> None:
    parts = executor_manager._split_input_slice(size, shares)
    assert [part.stop for part in parts] == ends
    assert np.concatenate([np.arange(size)[part] for part in parts]).tolist() == list(range(size))


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ShapeError, match=r"a batch of 2 in shares \[1, 1, 1\]: a device gets no example"):
        executor_manager._split_input_slice(2, [1, 1, 1])
    x = sym.Variable("x")
    executor_manager._check_arguments(sym.FullyConnected(x, num_hidden=2, name="fc"))
    twice = sym.FullyConnected(sym.FullyConnected(x, num_hidden=2, name="fc"), num_hidden=2, name="fc")
    with pytest.raises(
        ArgumentError, match="arguments: expected different names, got fc_weight, fc_bias twice"
    ):
        executor_manager._check_arguments(twice)
    with pytest.raises(AttributeError, match=r"'DataParallelExecutorManager': .*mx.mod.Module"):
        executor_manager.DataParallelExecutorManager


def test_a_batch_goes_to_devices_in_parts_and_comes_back() -> None:
    rows, steps = nd.arange(12).reshape((4, 3)), nd.arange(12).reshape((3, 4))
    halves = [slice(0, 2), slice(2, 4)]
    by_row, by_step, whole = (
        [(part, nd.zeros(shape, ctx=cpu(i))) for i, part in enumerate(halves)]
        for shape in ((2, 3), (3, 2), (3, 4))
    )
    batch = DataBatch([rows, steps], [steps])
    executor_group._load_data(batch, [by_row, by_step], [0, 1])
    executor_group._load_label(batch, [whole], [-1])
    arrays = [[array for _, array in targets] for targets in (by_row, by_step, whole)]
    for i, part in enumerate(halves):
        assert (arrays[0][i].asnumpy() == rows.asnumpy()[part]).all()
        assert (arrays[1][i].asnumpy() == steps.asnumpy()[:, part]).all()
        assert (arrays[2][i].asnumpy() == steps.asnumpy()).all()
    merged = executor_group._merge_multi_context(arrays, [0, 1, -1])
    for array, expected in zip(merged, (rows, steps, steps), strict=True):
        assert (array.asnumpy() == expected.asnumpy()).all() and array.context == cpu(0)


def test_parts_that_are_there_and_whole_batches_are_copied() -> None:
    parts, one = [nd.ones((1, 2)), nd.full((1, 2), 2)], nd.zeros((2, 2))
    targets = [(slice(i, i + 1), nd.zeros((1, 2), ctx=cpu(i))) for i in range(2)]
    executor_manager._load_data(DataBatch([parts, nd.full((2, 2), 3)]), [targets, one])
    assert [array.asnumpy().tolist() for _, array in targets] == [[[1, 1]], [[2, 2]]]
    assert one.asnumpy().tolist() == [[3, 3], [3, 3]]
    executor_manager._load_label(DataBatch([], [nd.full((2, 2), 4)]), [one])
    assert one.asnumpy().tolist() == [[4, 4], [4, 4]]
    with pytest.raises(ArgumentError, match="as many arrays as targets and axes, got 1, 2 and 1"):
        executor_group._load_general([one], [one, one])
