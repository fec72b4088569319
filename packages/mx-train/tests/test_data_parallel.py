# SPDX-License-Identifier: Apache-2.0
"""Groups of executors as programs of MXNet make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import metric
from mx_train.module.executor_group import DataParallelExecutorGroup
from mx_train.monitor import Monitor

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
    with pytest.raises(ArgumentError, match="state_names: x: not among the arguments data, a_weight"):
        group(network("a"), ["a_weight"], state_names=["x"])
    with pytest.raises(ArgumentError, match=r"group2ctxs is an argument of mx.mod.Module"):
        group(network("a"), ["a_weight"], group2ctxs={"g": cpu(0)})


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


def test_other_shapes_keep_parameters_and_gradients() -> None:
    made = group(network("a"), ["a_weight"], grad_req="add")
    made.set_params({"a_weight": nd.array(np.eye(3))})
    weights = [executor.arg_dict["a_weight"] for executor in made.execs]
    gradients = made.grad_arrays
    bound = made.execs
    made.reshape([("data", (4, 3))], None)
    assert made.execs is bound
    for rows in (6, 2):
        made.reshape([("data", (rows, 3))], None)
        assert made.batch_size == rows and made.slices == [slice(0, rows // 2), slice(rows // 2, rows)]
        x = nd.array(np.arange(3 * rows).reshape(rows, 3))
        made.forward(DataBatch([x]))
        assert made.get_outputs()[0].asnumpy().tolist() == x.asnumpy().tolist()
        made.backward([nd.ones((rows, 3))])
    assert (
        gradients is not None
        and (gradients[0][0].asnumpy()[0] == [0 + 3 + 6 + 0, 1 + 4 + 7 + 1, 2 + 5 + 8 + 2]).all()
    )
    weights[0][:] = 5
    assert (made.execs[0].arg_dict["a_weight"].asnumpy() == 5).all()
    with pytest.raises(ShapeError, match="a batch of 1 for 2 contexts"):
        made.reshape([("data", (1, 3))], None)
    assert made.batch_size == 2
    made.bind_exec([("data", (4, 3))], None)
    assert made.execs[0].arg_dict["a_weight"] is not weights[0]
    assert made.decide_slices(
        [DataDesc("data", (3, 8), layout="NT"), DataDesc("mask", (8, 3), layout="TN")]
    ) == [0, 1]
    assert made.slices == [slice(0, 2), slice(2, 3)]


def test_monitors_go_with_other_shapes() -> None:
    made = group(network("a"), ["a_weight"])
    made.install_monitor(Monitor(1, stat_func=lambda x: x.sum(), pattern=".*output"))
    monitor = made._monitors[0]
    made.reshape([("data", (6, 3))], None)
    monitor.tic()
    made.forward(DataBatch([nd.ones((6, 3))]))
    assert [name for _, name, _ in monitor.toc()] == ["a_output", "a_output"]


def test_states() -> None:
    symbol = sym.Variable("data") + sym.Variable("state")
    made = group(symbol, [], inputs_need_grad=False, state_names=["state"])
    assert made.grad_req == {"data": "null", "state": "null"}
    made.set_states(value=2)
    made.forward(DataBatch([nd.ones((4, 3))]))
    assert (made.get_outputs()[0].asnumpy() == 3).all() and made.get_outputs(begin=1) == []
    whole = nd.array(np.arange(12).reshape(4, 3))
    made.set_states([whole])
    assert made.get_states()[0].asnumpy().tolist() == whole.asnumpy().tolist()
    (parts,) = made.get_states(merge_multi_context=False)
    assert [part.shape for part in parts] == [(2, 3), (2, 3)]
    made.set_states([[nd.zeros((2, 3)), nd.ones((2, 3))]])
    assert made.get_states()[0].asnumpy()[:, 0].tolist() == [0, 0, 1, 1]
    for given, value in ((None, None), ([whole], 1)):
        with pytest.raises(ArgumentError, match="expected states or a value, got (neither|both)"):
            made.set_states(given, value)
    with pytest.raises(ArgumentError, match=r"expected 1 states \(state\), got 2"):
        made.set_states([whole, whole])
    with pytest.raises(ShapeError, match=r"'state': bound with shape \(2, 3\), got \(1, 3\)"):
        made.set_states([[nd.ones((1, 3))] * 2])
