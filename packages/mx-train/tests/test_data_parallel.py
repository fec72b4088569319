# SPDX-License-Identifier: Apache-2.0
"""Groups of executors as programs of MXNet make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, DTypeError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import metric
from mx_train.module.executor_group import DataParallelExecutorGroup

CONTEXTS = [cpu(0), cpu(1)]


def network(*layers: str) -> Any:
    x = sym.Variable("data")
    for name in layers:
        x = sym.FullyConnected(x, num_hidden=3, no_bias=True, name=name)
    return x


def group(symbol: Any, names: list[str], **kwargs: Any) -> DataParallelExecutorGroup:
    given = {"for_training": True, "inputs_need_grad": True} | kwargs
    return DataParallelExecutorGroup(symbol, CONTEXTS, [1, 1], [("data", (4, 3))], None, names, **given)


def test_a_batch_goes_through_all_contexts() -> None:
    made = group(network("a"), ["a_weight"])
    made.set_params({"a_weight": nd.array(np.eye(3) * 2)})
    x = nd.array(np.arange(12).reshape(4, 3))
    made.forward(DataBatch([x]))
    assert made.get_outputs()[0].asnumpy().tolist() == (2 * x).asnumpy().tolist()
    assert [part.shape for part in made.get_outputs(merge_multi_context=False)[0]] == [(2, 3), (2, 3)]
    made.backward([nd.ones((4, 3))])
    assert (made.get_input_grads()[0].asnumpy() == 2).all()
    assert [grad.shape for grad in made.get_input_grads(merge_multi_context=False)[0]] == [(2, 3), (2, 3)]
    args: dict[str, Any] = {}
    made.get_params(args, {})
    assert args["a_weight"].asnumpy().tolist() == (np.eye(3) * 2).tolist()


def test_a_group_takes_parameters_and_inputs_of_another() -> None:
    first = group(network("a"), ["a_weight"], inputs_need_grad=False)
    assert [set(arrays) for arrays in first.shared_data_arrays] == [{"data"}, {"data"}]
    second = group(network("a", "b"), ["a_weight"], inputs_need_grad=False, shared_group=first)
    assert [set(arrays) for arrays in first.shared_data_arrays] == [{"data", "b_weight"}] * 2
    first.set_params({"a_weight": nd.ones((3, 3))})
    first.forward(DataBatch([nd.ones((4, 3))]))
    for one, other in zip(first.execs, second.execs, strict=True):
        assert (other.arg_dict["a_weight"].asnumpy() == 1).all()
        assert (other.arg_dict["data"].asnumpy() == 1).all()
        one.grad_dict["a_weight"][:] = 5
        assert (other.grad_dict["a_weight"].asnumpy() == 5).all()
    assert second.grad_req == {"data": "null", "a_weight": "write", "b_weight": "null"}


def test_requests_of_fixed_parameters_and_without_training() -> None:
    names = ["a_weight", "b_weight"]
    fixed = group(network("a", "b"), names, fixed_param_names=["a_weight"], grad_req="add")
    assert fixed.grad_req == {"data": "add", "a_weight": "null", "b_weight": "add"}
    assert set(group(network("a", "b"), names, for_training=False).grad_req.values()) == {"null"}
    each = group(network("a", "b"), names, grad_req={"a_weight": "add"})
    assert each.grad_req == {"data": "write", "a_weight": "add", "b_weight": "write"}
    with pytest.raises(ArgumentError, match="state_names"):
        group(network("a"), ["a_weight"], state_names=["data"])


def test_requests_that_are_named_count_whatever_is_trained() -> None:
    names = ["a_weight", "b_weight"]
    options: dict[str, Any] = {"inputs_need_grad": False, "fixed_param_names": ["b_weight"]}
    named = group(network("a", "b"), names, grad_req={"data": "write"}, **options)
    assert named.grad_req == {"data": "write", "a_weight": "write", "b_weight": "null"}
    listed = group(network("a", "b"), names, grad_req=["add", "null", "write"], **options)
    assert listed.grad_req == {"data": "add", "a_weight": "null", "b_weight": "write"}
    idle = group(network("a", "b"), names, grad_req={"data": "write"}, for_training=False)
    assert set(idle.grad_req.values()) == {"null"}


def test_numbers_that_do_not_fit_are_told() -> None:
    symbol, shape = network("a"), [("data", (6, 3))]
    first = group(symbol, ["a_weight"])
    with pytest.raises(ArgumentError, match="workload: expected shares of 2 contexts, got 1"):
        DataParallelExecutorGroup(symbol, CONTEXTS, [1], shape, None, ["a_weight"], True, False)
    three = [*CONTEXTS, cpu(2)]
    with pytest.raises(ArgumentError, match="shared_group: expected executors of 3 contexts, got 2"):
        DataParallelExecutorGroup(symbol, three, [1] * 3, shape, None, ["a_weight"], True, False, first)
    with pytest.raises(ArgumentError, match=r"grad_req: expected 2 requests \(data, a_weight\), got 1"):
        group(symbol, ["a_weight"], grad_req=["write"])
    with pytest.raises(
        DTypeError, match=r"a_weight: expected float16\[3, 3\] in the shared .*, got float32\[3, 3\]"
    ):
        DataParallelExecutorGroup(
            symbol,
            CONTEXTS,
            [1, 1],
            [DataDesc("data", (4, 3), "float16")],
            None,
            ["a_weight"],
            True,
            False,
            first,
        )


def test_shapes_and_metrics_of_outputs() -> None:
    symbol = sym.SoftmaxOutput(network("a"), name="softmax")
    made = DataParallelExecutorGroup(
        symbol, CONTEXTS, [1, 1], [("data", (4, 3))], [("softmax_label", (4,))], ["a_weight"], True, False
    )
    assert made.get_output_shapes() == [("softmax_output", (4, 3))]
    made.set_params({"a_weight": nd.array(np.eye(3))})
    label = nd.array([0, 1, 2, 0])
    made.forward(DataBatch([nd.array(np.eye(3)[[0, 1, 2, 2]])], [label]), is_train=False)
    for sliced, given in ((False, [label]), (True, [[label[:2]], [label[2:]]])):
        accuracy = metric.Accuracy()
        made.update_metric(accuracy, given, pre_sliced=sliced)
        assert accuracy.get() == ("accuracy", 0.75)
