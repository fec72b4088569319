# SPDX-License-Identifier: Apache-2.0
"""Executors: forward, backward, requests, states, failures, looking inside."""

import random
from pathlib import Path

import numpy as np
import pytest

from mx_core.context import cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import autograd, nd
from mx_symbol import AttrScope, sym
from mx_symbol.runtime.program import segment_limits

DATA = Path(__file__).parents[1] / "data"
RNG = np.random.default_rng(5)


def mlp():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc1")
    net = sym.Activation(net, act_type="relu", name="relu")
    net = sym.FullyConnected(net, num_hidden=4, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def filled(executor, scale=0.5):
    for array in executor.arg_arrays:
        array[:] = nd.array(RNG.normal(size=array.shape) * scale)
    return executor


def test_a_multilayer_perceptron_like_the_imperative_one():
    executor = filled(mlp().simple_bind(data=(6, 5)))
    label = np.array([0, 1, 2, 3, 0, 1], "float32")
    executor.forward(is_train=True, softmax_label=label)
    executor.backward()
    args = {k: v.copy() for k, v in executor.arg_dict.items()}
    for array in args.values():
        array.attach_grad()
    with autograd.record():
        hidden = nd.FullyConnected(args["data"], args["fc1_weight"], args["fc1_bias"], num_hidden=16)
        hidden = nd.Activation(hidden, act_type="relu")
        out = nd.FullyConnected(hidden, args["fc2_weight"], args["fc2_bias"], num_hidden=4)
        out = nd.SoftmaxOutput(out, args["softmax_label"])
    out.backward()
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), out.asnumpy(), rtol=1e-5)
    for name in ("data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"):
        np.testing.assert_allclose(
            executor.grad_dict[name].asnumpy(), args[name].grad.asnumpy(), rtol=1e-4, atol=1e-6
        )


def test_training_with_plain_descent_learns():
    x = RNG.normal(size=(64, 5)).astype("float32")
    label = (x[:, 0] > 0) + 2 * (x[:, 1] > 0)
    requests = {n: "write" for n in mlp().list_arguments() if "weight" in n or "bias" in n}
    executor = filled(mlp().simple_bind(data=x.shape, grad_req=requests), 0.3)
    for _ in range(150):
        executor.forward(is_train=True, data=x, softmax_label=label.astype("float32"))
        executor.backward()
        for name in requests:
            executor.arg_dict[name][:] = executor.arg_dict[name] - 0.02 * executor.grad_dict[name]
    executor.forward()
    assert (executor.outputs[0].asnumpy().argmax(1) == label).mean() > 0.9
    assert executor.grad_dict["data"] is None


def test_a_checkpoint_of_mxnet_predicts_the_same():
    truth = np.load(DATA / "lenet_truth.npz")
    params = nd.load(str(DATA / "lenet-0003.params"))
    net = sym.load(DATA / "lenet-symbol.json")
    executor = net.simple_bind(grad_req="null", data=truth["data"].shape)
    executor.copy_params_from(
        {k[4:]: v for k, v in params.items() if k.startswith("arg:")},
        {k[4:]: v for k, v in params.items() if k.startswith("aux:")},
    )
    prediction = executor.forward(data=truth["data"])[0].asnumpy()
    np.testing.assert_allclose(prediction, truth["pred"], atol=1e-5)


def test_the_tutorial_operator():
    quad = sym.contrib.quadratic(sym.Variable("x"), a=1, b=2, c=3, name="quadratic0")
    executor = quad.simple_bind(ctx=cpu(), x=(1,))
    executor.forward(is_train=True, x=np.array([2.0]))
    executor.backward(nd.ones((1,)))
    assert executor.outputs[0].asnumpy() == [11]
    assert executor.grad_dict["x"].asnumpy() == [6]


def test_requests_write_add_and_null():
    a, b, c = (sym.Variable(n) for n in "abc")
    executor = (a * b * c).simple_bind(
        grad_req={"a": "write", "b": "add"}, a=(2,), b=(2,), c=(2,)
    )  # fmt: skip
    for name, value in zip("abc", (2, 3, 5), strict=True):
        executor.arg_dict[name][:] = value
    executor.grad_dict["b"][:] = 100
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(nd.ones((2,)))
    assert executor.grad_dict["a"].asnumpy().tolist() == [15, 15]
    assert executor.grad_dict["b"].asnumpy().tolist() == [120, 120]
    assert executor.grad_dict["c"] is None
    assert executor.grad_arrays[2] is None


def test_add_where_the_gradient_is_shared():
    a, b = sym.Variable("a"), sym.Variable("b")
    executor = (a + b).simple_bind(grad_req="add", a=(2,), b=(2,))
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward(nd.array([1, 2]))
    for name in "ab":
        assert executor.grad_dict[name].asnumpy().tolist() == [3, 6]


@pytest.mark.parametrize("seed", [5, 55, 57])
def test_gradients_that_share_an_array_leave_one_of_them_there(seed):
    choose, rng = random.Random(seed), np.random.RandomState(seed)
    variables = [sym.Variable(f"v{i}") for i in range(5)]
    values = list(variables)
    for _ in range(12):
        a, b = choose.choice(values), choose.choice(values)
        made = (a * b, sym.tanh(a) + b, sym.sigmoid(a) * sym.sin(b), sym.dot(a, b), a - b * 0.5)
        values.append(choose.choice(made))
    y = values[-1]
    for variable in variables:
        y = y + sym.tanh(variable * y * 0.1)
    names = y.list_arguments()
    args = {name: nd.array(rng.randn(6, 6) * 0.3) for name in names}
    apart = {name: nd.zeros((6, 6)) for name in names}
    together = dict.fromkeys(names, nd.zeros((6, 6))) | {names[0]: nd.zeros((6, 6))}
    head = nd.array(rng.randn(6, 6))
    for grads in (apart, together):
        executor = y.bind(cpu(), args, args_grad=grads)
        executor.forward(is_train=True)
        executor.backward(head)
    close = [np.allclose(together[n].asnumpy(), apart[n].asnumpy(), 1e-4, 1e-5) for n in names]
    assert close[0] and any(close[1:])


def test_gradients_side_by_side_in_one_array_share_nothing():
    flat = nd.zeros((4, 3))
    args = {name: nd.ones((2, 3)) for name in "ab"}
    net = sym.Variable("a") * sym.Variable("b")
    executor = net.bind(cpu(), args=args, args_grad={"a": flat[:2], "b": flat[2:]})
    assert executor._graph.shared_grads == frozenset()
    executor = net.bind(cpu(), args=args, args_grad={"a": flat[:2], "b": flat[1:3]})
    assert executor._graph.shared_grads == {"a", "b"}
    executor = net.bind(cpu(), args=args, args_grad={"a": args["b"], "b": flat[:2]})
    assert executor._graph.shared_grads == {"a"}


def test_a_gradient_that_is_zero_is_written_as_zero_and_adds_nothing():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.BlockGrad(a) + sym.BlockGrad(b)
    executor = net.simple_bind(grad_req={"a": "write", "b": "add"}, a=(2,), b=(2,))
    executor.grad_dict["a"][:] = 7
    executor.grad_dict["b"][:] = 7
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert executor.grad_dict["a"].asnumpy().tolist() == [0, 0]
    assert executor.grad_dict["b"].asnumpy().tolist() == [7, 7]


def test_outputs_are_the_same_arrays_every_time():
    a = sym.Variable("a")
    executor = sym.Group([a * 2, a, a * 2 + 1]).simple_bind(a=(2,))
    first = executor.forward(a=np.ones(2))
    second = executor.forward(a=np.full(2, 3.0))
    assert all(x is y for x, y in zip(first, second, strict=True))
    assert [o.asnumpy().tolist() for o in second] == [[6, 6], [3, 3], [7, 7]]
    assert second[1] is executor.arg_dict["a"]


def test_an_output_handed_out_twice_and_read_inside():
    a = sym.Variable("a")
    b = sym.exp(a)
    executor = sym.Group([b, b, b * 2]).simple_bind(a=(1,))
    executor.forward(is_train=True, a=np.zeros(1))
    executor.backward([nd.ones((1,)), nd.ones((1,)), nd.ones((1,))])
    assert [o.asnumpy()[0] for o in executor.outputs] == [1, 1, 2]
    assert executor.grad_dict["a"].asnumpy()[0] == 4


def test_states_change_in_place():
    net = sym.test_counter(sym.Variable("a"), name="c")
    executor = net.simple_bind(a=(2,))
    for expected in (0, 1, 2):
        assert executor.forward(a=np.ones(2))[0].asnumpy().tolist() == [expected] * 2
    assert executor.aux_dict["c_state"].asnumpy().tolist() == [3, 3]
    assert executor.aux_arrays[0] is executor.aux_dict["c_state"]


def test_training_mode_reaches_the_operators():
    executor = sym.test_mode(sym.Variable("a") + 1).simple_bind(a=(1,))
    assert executor.forward(is_train=True)[0].asnumpy() == [1]
    assert executor.forward(is_train=False)[0].asnumpy() == [0]
    assert executor.forward(is_train=True)[0].asnumpy() == [1]


def test_backward_after_an_inference_forward():
    a = sym.Variable("a")
    executor = sym.exp(sym.exp(a)).simple_bind(a=(1,))
    executor.forward(is_train=False, a=np.zeros(1))
    executor.backward(nd.ones((1,)))
    np.testing.assert_allclose(executor.grad_dict["a"].asnumpy(), [np.e], rtol=1e-5)


def test_dropout_uses_one_mask_forward_and_backward():
    executor = sym.Dropout(sym.Variable("a"), p=0.5).simple_bind(a=(1000,))
    executor.arg_dict["a"][:] = 1
    masks = []
    for _ in range(2):
        out = executor.forward(is_train=True)[0].asnumpy()
        executor.backward(nd.ones((1000,)))
        assert set(np.unique(out)) == {0, 2}
        np.testing.assert_array_equal(executor.grad_dict["a"].asnumpy(), out)
        masks.append(out)
    assert (masks[0] != masks[1]).any()
    assert executor.forward()[0].asnumpy().tolist() == [1] * 1000


def test_kernels_in_python_and_native_ones_mix():
    net = sym.exp(sym.test_doubled(sym.exp(sym.Variable("a")))) * 2
    executor = net.simple_bind(a=(3,))
    for _ in range(2):
        executor.forward(is_train=True, a=np.zeros(3))
        executor.backward(nd.ones((3,)))
    e2 = np.exp(2)
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), [2 * e2] * 3, rtol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["a"].asnumpy(), [4 * e2] * 3, rtol=1e-5)


def test_a_failure_names_the_node_and_the_executor_lives_on():
    a = sym.Variable("a")
    net = sym.test_fails(a * 2, name="culprit")
    executor = net.simple_bind(a=(1,))
    for _ in range(2):
        executor.forward()
        with pytest.raises(ZeroDivisionError, match="computed by test_fails") as caught:
            executor.outputs[0].asnumpy()
        assert "culprit" in "".join(caught.value.__notes__)


def test_backward_without_out_gradients_needs_a_loss():
    executor = (sym.Variable("a") * 2).simple_bind(a=(1,))
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="not a loss"):
        executor.backward()
    with pytest.raises(ArgumentError, match="expected 1 arrays, got 2"):
        executor.backward([nd.ones((1,)), nd.ones((1,))])
    with pytest.raises(ShapeError, match=r"\(1,\).*\(2,\)"):
        executor.backward(nd.ones((2,)))


def test_wrong_values_for_arguments():
    executor = (sym.Variable("a") * 2).simple_bind(a=(2,))
    with pytest.raises(TypeError, match="Unknown argument zz"):
        executor.forward(zz=np.zeros(2))
    with pytest.raises(ValueError, match=r"Argument a, need: \(2,\), received: \(3,\)"):
        executor.forward(a=np.zeros(3))
    with pytest.raises(ArgumentError, match="nope"):
        executor.copy_params_from({"nope": nd.zeros((2,))})
    executor.copy_params_from({"nope": nd.zeros((2,))}, allow_extra_params=True)


def test_zero_sized_arrays():
    executor = (sym.exp(sym.Variable("a")) + 1).bind(None, {"a": nd.zeros((0, 3))}, {"a": nd.zeros((0, 3))})
    executor.forward(is_train=True)
    executor.backward(nd.zeros((0, 3)))
    assert executor.outputs[0].shape == (0, 3)
    assert executor.grad_dict["a"].asnumpy().shape == (0, 3)


def test_evaluating_a_symbol():
    a, b = sym.Variable("a"), sym.Variable("b")
    assert (a + b).eval(cpu(), a=nd.ones((2,)), b=nd.ones((2,)))[0].asnumpy().tolist() == [2, 2]


def test_a_memory_plan_is_smaller_than_the_sum():
    net = sym.load(DATA / "resnet18_v1-symbol.json")
    executor = net.simple_bind(grad_req="null", data=(1, 3, 32, 32))
    plan = executor.memory_plan()
    assert plan.live_bytes <= plan.total_bytes < plan.naive_bytes / 3
    assert "resnetv10_relu0_fwd_output" in str(plan)
    assert "MB allocated" in executor.debug_str()


def test_a_monitor_sees_every_value():
    seen = {}
    executor = filled(mlp().simple_bind(data=(2, 5)))
    executor.forward(is_train=True)
    executor.backward()
    expected = executor.outputs[0].asnumpy(), executor.grad_dict["fc1_weight"].asnumpy()

    def look(name, array):
        seen[name] = array.asnumpy()

    executor.set_monitor_callback(look)
    executor.forward(is_train=True)
    executor.backward()
    assert list(seen)[:4] == ["fc1_output", "relu_output", "fc2_output", "softmax_output"]
    assert "fc1_backward_bias_grad" in seen
    np.testing.assert_allclose(seen["softmax_output"], expected[0], rtol=1e-6)
    np.testing.assert_allclose(executor.grad_dict["fc1_weight"].asnumpy(), expected[1], rtol=1e-6)
    executor.set_monitor_callback(look, monitor_all=True)
    executor.forward()
    assert {"data", "fc1_data", "fc1_weight", "relu_input0"} <= set(seen)
    executor.set_monitor_callback(None)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), expected[0], rtol=1e-6)


def test_a_gradient_of_two_arguments_is_added_to_each():
    net = sym.relu(sym.Variable("a") + sym.Variable("b"))
    executor = net.simple_bind(grad_req="add", a=(2,), b=(2,))
    executor.copy_params_from({"a": nd.array([1.0, -3.0]), "b": nd.array([1.0, 1.0])})
    for rounds in (1, 2, 3):
        executor.forward(is_train=True)
        executor.backward(nd.ones((2,)))
        for name in "ab":
            np.testing.assert_array_equal(executor.grad_dict[name].asnumpy(), [rounds, 0])


def test_forward_node_by_node():
    net = sym.FullyConnected(sym.tanh(sym.Variable("x") * 2), num_hidden=3, name="fc")
    whole, stepped = (net.simple_bind(x=(2, 4)) for _ in range(2))
    for executor in (whole, stepped):
        for i, array in enumerate(executor.arg_arrays):
            array[:] = nd.array(np.linspace(-1, 1 + i, array.size).reshape(array.shape))
    whole.forward(is_train=True)
    step, left = 0, 1
    while left:
        left = stepped.partial_forward(is_train=True, step=step)
        step += 1
    assert step > 1
    np.testing.assert_array_equal(stepped.outputs[0].asnumpy(), whole.outputs[0].asnumpy())
    for executor in (whole, stepped):
        executor.backward(nd.ones((2, 3)))
    for a, b in zip(stepped.grad_arrays, whole.grad_arrays, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    with pytest.raises(IndexError, match="step: expected 0 to"):
        stepped.partial_forward(step=99)


@pytest.mark.parametrize("groups", [None, {"other": cpu(1)}], ids=["on one device", "on two devices"])
def test_backward_follows_the_forward_part_that_ran_last(groups):
    """By steps or as a whole, in training or inference, also where constants are prepared."""
    x, factor = sym.Variable("x"), sym.reshape(sym.sin(sym.arange(12)), shape=(3, 4))
    with AttrScope(ctx_group="other"):
        y = sym.tanh(x * factor) * sym.sigmoid(x + factor)
    net = sym.broadcast_mul(sym.tanh(sym.FullyConnected(y, num_hidden=5, name="fc")), sym.cos(sym.sum(y)))
    expected, got = (
        net.simple_bind(cpu(0), group2ctx=groups, passes=passes, x=(3, 4)) for passes in ("none", None)
    )
    rng = np.random.default_rng(0)
    for how in ("steps", "steps", "whole", "inference by steps", "steps", "inference"):
        for name, array in got.arg_dict.items():
            array[:] = expected.arg_dict[name][:] = rng.normal(size=array.shape)
        expected.forward(is_train=True)
        if how.endswith("steps"):
            step, left = 0, 1
            while left:
                left = got.partial_forward(is_train=how == "steps", step=step)
                step += 1
        else:
            got.forward(is_train=how == "whole")
        for executor in (expected, got):
            executor.backward(nd.ones((3, 5)))
        for a, b in zip(got.grad_arrays, expected.grad_arrays, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6, err_msg=how)


@pytest.mark.parametrize(
    ("variables", "training", "inference"),
    [
        ({}, (0, 0), (0, 0)),
        ({"TRAIN": "0"}, (1, 1), (0, 0)),
        ({"INFERENCE": "0"}, (0, 0), (1, 1)),
        ({"MAX_NODE_TRAIN": "3"}, (3, 3), (0, 0)),
        ({"MAX_NODE_TRAIN": "3", "MAX_NODE_TRAIN_BWD": "2"}, (3, 2), (0, 0)),
    ],
)
def test_bulk_variables_cut_programs(monkeypatch, variables, training, inference):
    for name, value in variables.items():
        monkeypatch.setenv(f"MXNET_EXEC_BULK_EXEC_{name}", value)
    assert (segment_limits(True), segment_limits(False)) == (training, inference)
    executor = filled(mlp().simple_bind(data=(2, 5)))
    executor.forward(is_train=True)
    executor.backward()
    cut = executor.grad_dict["fc1_weight"].asnumpy()
    monkeypatch.undo()
    whole = mlp().simple_bind(data=(2, 5))
    whole.copy_params_from(executor.arg_dict)
    whole.forward(is_train=True)
    whole.backward()
    np.testing.assert_array_equal(cut, whole.grad_dict["fc1_weight"].asnumpy())


def test_a_bulk_variable_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("MXNET_EXEC_BULK_EXEC_TRAIN", "often")
    with pytest.raises(ArgumentError, match="MXNET_EXEC_BULK_EXEC_TRAIN.*got 'often'"):
        mlp().simple_bind(data=(2, 5)).forward(is_train=True)


def test_the_tables_of_arrays_are_copies():
    executor = filled(mlp().simple_bind(data=(2, 5)))
    before = executor.forward()[0].asnumpy()
    executor.arg_dict["fc1_weight"] = nd.zeros((3, 5))
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), before)


def test_an_out_gradient_is_an_array():
    executor = (sym.Variable("a") * 2).simple_bind(a=(2,))
    executor.forward(is_train=True)
    with pytest.raises(TypeError, match=r"out_grads\[0\]"):
        executor.backward([3])


def test_a_graph_of_one_number():
    scalar = (sym.Variable("a") * 3).bind(
        cpu(), {"a": nd.array(np.float32(2))}, {"a": nd.array(np.float32(0))}
    )
    assert scalar.forward(is_train=True, a=np.float32(5))[0].asscalar() == 15
    scalar.backward(nd.array(np.float32(2)))
    assert scalar.grad_dict["a"].asscalar() == 6
    scalar.copy_params_from({"a": nd.array(np.float32(7))})
    assert scalar.forward()[0].asscalar() == 21
