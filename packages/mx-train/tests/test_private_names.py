# SPDX-License-Identifier: Apache-2.0
"""Private and lesser names of MXNet that programs read have what MXNet 1.9.1 has there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError
from mx_io.io import DataBatch
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import initializer, metric, optimizer
from mx_train.module import Module
from mx_train.rnn import BucketSentenceIter


def net() -> Any:
    hidden = sym.BatchNorm(sym.FullyConnected(sym.var("data"), num_hidden=2, name="f"), name="b")
    return sym.SoftmaxOutput(hidden, name="softmax")


def shapes(arrays: Any) -> Any:
    return [[None if array is None else array.shape for array in each] for each in arrays]


def test_arrays_of_two_contexts() -> None:
    module = Module(net(), context=[cpu(0), cpu(1)], fixed_param_names=["f_bias"])
    module.bind([("data", (4, 3))], [("softmax_label", (4,))], inputs_need_grad=True)
    group: Any = module._exec_group
    assert group.param_names == ["f_weight", "f_bias", "b_gamma", "b_beta"]
    assert shapes(group.param_arrays) == [[(2, 3)] * 2, [(2,)] * 2, [(2,)] * 2, [(2,)] * 2]
    assert shapes(group.grad_arrays) == [[(2, 3)] * 2, [None] * 2, [(2,)] * 2, [(2,)] * 2]
    assert shapes(group.aux_arrays) == [[(2,)] * 2, [(2,)] * 2]
    assert shapes(group.input_grad_arrays) == [[(2, 3)] * 2]
    parts = [slice(0, 2), slice(2, 4)]
    for arrays, shape in ((group.data_arrays, (2, 3)), (group.label_arrays, (2,))):
        assert [[(part, array.shape) for part, array in each] for each in arrays] == [
            [(part, shape) for part in parts]
        ]
    assert group.arg_names == ["data", "f_weight", "f_bias", "b_gamma", "b_beta", "softmax_label"]
    assert group.aux_names == ["b_moving_mean", "b_moving_var"]
    assert (group.data_names, group.label_names, group.for_training) == (["data"], ["softmax_label"], True)
    assert group.grad_req["f_bias"] == group.grad_req["softmax_label"] == "null"
    assert group.symbol is module.symbol
    assert (module._grad_req, module._fixed_param_names, module._output_names) == (
        "write",
        ["f_bias"],
        ["softmax_output"],
    )
    assert module._update_on_kvstore is None
    module.init_params()
    module.init_optimizer()
    assert module._update_on_kvstore is True
    module.forward(DataBatch([nd.ones((4, 3))], [nd.ones(4)]), is_train=True)
    module.backward()
    module.update()
    assert module._params_dirty
    module._sync_params_from_devices()
    assert not module._params_dirty


def test_a_module_that_does_not_train_has_no_gradients() -> None:
    module = Module(net())
    module.bind([("data", (4, 3))], for_training=False)
    group: Any = module._exec_group
    assert (group.grad_arrays, group.label_arrays, group.input_grad_arrays) == (None, None, None)
    assert len(group.data_arrays) == 1


def test_gradients_are_clipped_as_programs_do_it() -> None:
    module = Module(net())
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer(optimizer_params={"learning_rate": 1.0, "rescale_grad": 1.0})
    module.forward(DataBatch([nd.random.normal(shape=(4, 3))], [nd.zeros(4)]), is_train=True)
    module.backward()
    before = module.get_params()[0]["b_beta"].copy()
    group: Any = module._exec_group
    for gradients in group.grad_arrays:
        for gradient in gradients:
            gradient[:] = nd.clip(gradient, -1e-3, 1e-3)
    module.update()
    changed = np.abs((module.get_params()[0]["b_beta"] - before).asnumpy())
    assert 0 < changed.max() <= 1.001e-3


@pytest.mark.parametrize(
    ("name", "number"), [("sgd", 4), ("ccsgd", 4), ("lars", 4), ("lamb", 45), ("adam", 0), ("nag", 0)]
)
def test_how_many_weights_mxnet_updates_at_once(name: str, number: int) -> None:
    made = optimizer.create(name)
    assert (made.aggregate_num, made.allow_np_array) == (number, False)
    made.aggregate_num = 7
    assert made.aggregate_num == 7
    assert optimizer.create(name, aggregate_num=3).aggregate_num == 3


def test_further_names_of_metrics_and_initializers() -> None:
    @metric.alias("other_acc", "Third")
    class OtherAccuracy(metric.Accuracy): ...

    assert type(metric.create("other_acc")) is type(metric.create("third")) is OtherAccuracy

    @initializer.alias("other_one")
    class OtherOne(initializer.One): ...

    assert type(initializer.create("other_one")) is OtherOne


def test_sentences_and_labels_as_arrays() -> None:
    source = BucketSentenceIter([[1, 2, 3]] * 5, 2, buckets=[3, 4])
    assert [array.asnumpy().tolist() for array in source.nddata] == [[[1, 2, 3]] * 5]
    assert [array.asnumpy().tolist() for array in source.ndlabel] == [[[2, 3, -1]] * 5]


def test_an_iterator_over_sentences_goes_on_from_the_state_of_another() -> None:
    sentences = [list(range(i, i + 2 + i % 2)) for i in range(1, 21)]

    def made() -> BucketSentenceIter:
        return BucketSentenceIter(sentences, 4, buckets=[2, 3])

    def epoch(source: BucketSentenceIter) -> list[Any]:
        return [(batch.bucket_key, batch.data[0].asnumpy().tolist()) for batch in source]

    source, other = made(), made()
    epoch(source)
    source.reset()
    other.load_state_dict(source.state_dict())
    assert epoch(other) == epoch(source)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (None, "expected what state_dict gave, got None"),
        ({"idx": None}, "idx: expected numbers|idx: expected shape"),
        ({"idx": [[0, 0]] * 3}, r"idx: expected shape \(4, 2\), got \(3, 2\)"),
        ({"idx": [[0, 0]] * 4}, "idx: expected the same batches in another order"),
        ({"rows1": [[1], [2, 3]]}, "rows1: expected numbers of shape"),
        ({"rows1": np.zeros((3, 3))}, r"rows1: expected shape \(10, 3\), got \(3, 3\)"),
        ({"rows1": ...}, "with 'rows1', got the keys"),
    ],
)
def test_the_state_of_other_sentences_is_refused_and_changes_nothing(changed: Any, message: str) -> None:
    source = BucketSentenceIter([list(range(i, i + 2 + i % 2)) for i in range(1, 21)], 4, buckets=[2, 3])
    before = source.state_dict()
    state = None if changed is None else {k: v for k, v in {**before, **changed}.items() if v is not ...}
    with pytest.raises(ArgumentError, match=rf"^\[BucketSentenceIter\] state: .*({message})"):
        source.load_state_dict(state)
    for name, value in source.state_dict().items():
        assert np.array_equal(value, before[name])


def test_bytes_of_a_module_are_those_of_its_intermediate_memory() -> None:
    module = Module(net(), context=[cpu(0), cpu(1)])
    assert module._total_exec_bytes == 0
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params()
    module.forward(DataBatch([nd.ones((4, 3))], [nd.zeros(4)]), is_train=True)
    small = module._total_exec_bytes
    assert small > 0
    module.reshape([("data", (400, 3))], [("softmax_label", (400,))])
    module.forward(DataBatch([nd.ones((400, 3))], [nd.zeros(400)]), is_train=True)
    large = module._total_exec_bytes
    assert large > small
    module.reshape([("data", (4, 3))], [("softmax_label", (4,))])
    assert module._total_exec_bytes == large
