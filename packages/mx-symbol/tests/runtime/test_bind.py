# SPDX-License-Identifier: Apache-2.0
"""Binding: lists and dictionaries, what is missing, sharing, other shapes."""

import numpy as np
import pytest

from mx_core.context import cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_ndarray import nd
from mx_symbol import AttrScope, sym


def product():
    return sym.Variable("a") * sym.Variable("b")


def test_lists_follow_the_arguments_and_the_arrays_are_the_callers():
    a, b, grad = nd.array([2.0]), nd.array([3.0]), nd.zeros((1,))
    executor = product().bind(cpu(), [a, b], [grad, None])
    executor.forward(is_train=True)
    executor.backward(nd.ones((1,)))
    assert grad.asnumpy() == [3]
    a[:] = 10
    assert executor.forward()[0].asnumpy() == [30]
    assert executor.arg_arrays[0] is a
    assert executor.grad_dict == {"a": grad, "b": None}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([nd.zeros((1,))], "Length of args does not match the number of arguments"),
        ({"a": nd.zeros((1,))}, "key `b` is missing in `args`"),
        ({"a": nd.zeros((1,)), "bb": nd.zeros((1,))}, "`b` is missing in `args`; of no use are `bb`"),
    ],
)
def test_missing_arrays(args, message):
    with pytest.raises(ValueError, match=message):
        product().bind(cpu(), args)


def test_arrays_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"_mul.*\(1,\).*\(2,\)|_mul.*\(2,\).*\(1,\)"):
        product().bind(cpu(), [nd.zeros((1,)), nd.zeros((2,))])
    with pytest.raises(DTypeError, match="float32.*int32|int32.*float32"):
        product().bind(cpu(), [nd.zeros((1,)), nd.zeros((1,), dtype="int32")])
    with pytest.raises(ShapeError, match="gradient of a"):
        product().bind(cpu(), [nd.zeros((1,))] * 2, {"a": nd.zeros((2,))})
    with pytest.raises(TypeError, match="NDArray.*float"):
        product().bind(cpu(), [1.0, nd.zeros((1,))])


def test_gradients_that_are_not_given_are_not_computed():
    executor = product().bind(cpu(), [nd.ones((1,))] * 2)
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_arrays == [None, None]


@pytest.mark.parametrize("request_", ["wrote", ["write"], {"a": "sum"}])
def test_wrong_requests(request_):
    with pytest.raises(ArgumentError, match="grad_req"):
        product().simple_bind(grad_req=request_, a=(1,), b=(1,))


def test_a_device_is_a_context():
    with pytest.raises(TypeError, match="ctx: expected a Context such as cpu\\(\\), got 'cpu'"):
        product().simple_bind("cpu", a=(1,), b=(1,))


def test_two_variables_of_one_name():
    with pytest.raises(MXNetError, match="two variables are named 'a'"):
        (sym.Variable("a") + sym.Variable("a")).simple_bind(a=(1,))


def test_shapes_that_cannot_be_inferred_are_listed() -> None:
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    with pytest.raises(ShapeError, match="nothing is known of data, fc_weight, fc_bias, softmax_label$"):
        net.simple_bind(cpu())
    with pytest.raises(ShapeError, match=r"in data \(2, 0\), fc_weight \(3, 0\) 0 is an unknown dim"):
        net.simple_bind(cpu(), data=(2, 0))
    with pytest.raises(ArgumentError, match="zz"):
        product().simple_bind(zz=(1,))
    many = sym.add_n(*(sym.exp(sym.Variable(f"v{i}")) for i in range(23)))
    with pytest.raises(ShapeError, match="v18, v19, 3 more$"):
        many.simple_bind(cpu())


def test_types_by_name_and_by_attribute():
    net = product().simple_bind(type_dict={"a": "float64"}, a=(1,))
    assert net.outputs[0].dtype == np.float64
    half = (sym.Variable("a", dtype="float16") + 1).simple_bind(a=(1,))
    assert half.outputs[0].dtype == np.float16
    assert product().simple_bind(a=(1,)).outputs[0].dtype == np.float32


def test_arrays_of_a_group_lie_where_it_says():
    with AttrScope(ctx_group="one"):
        a = sym.Variable("a")
    net = a + sym.Variable("b")
    executor = net.simple_bind(cpu(0), group2ctx={"one": cpu(1)}, a=(1,))
    assert executor.arg_dict["a"].context == cpu(1)
    assert executor.arg_dict["b"].context == cpu(0)
    assert executor.forward(a=np.ones(1), b=np.ones(1))[0].asnumpy() == [2]


def network():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    return sym.BatchNorm(net, name="bn")


def test_reshaping_keeps_parameters_and_states():
    executor = network().simple_bind(data=(4, 5))
    executor.arg_dict["fc_weight"][:] = 1
    executor.arg_dict["bn_gamma"][:] = 1
    executor.aux_dict["bn_moving_var"][:] = 1
    smaller = executor.reshape(data=(2, 5))
    assert smaller.arg_dict["fc_weight"] is executor.arg_dict["fc_weight"]
    assert smaller.aux_dict["bn_moving_var"] is executor.aux_dict["bn_moving_var"]
    assert smaller.forward(data=np.ones((2, 5)))[0].shape == (2, 3)
    np.testing.assert_allclose(smaller.outputs[0].asnumpy(), 5 / np.sqrt(1.001), rtol=1e-5)
    assert smaller.grad_dict["data"].shape == (2, 5)
    assert executor.forward(data=np.ones((4, 5)))[0].shape == (4, 3)


def test_reshaping_must_be_allowed_to_grow_and_to_change_what_is_not_named():
    executor = network().simple_bind(data=(4, 5))
    with pytest.raises(ShapeError, match="allow_up_sizing"):
        executor.reshape(data=(8, 5))
    assert executor.reshape(allow_up_sizing=True, data=(8, 5)).outputs[0].shape == (8, 3)
    with pytest.raises(ShapeError, match="partial_shaping"):
        executor.reshape(data=(4, 2))
    changed = executor.reshape(partial_shaping=True, data=(4, 2))
    assert changed.arg_dict["fc_weight"].shape == (3, 2)


def test_executors_share_arrays_and_memory():
    first = network().simple_bind(data=(4, 5))
    names = ["fc_weight", "fc_bias", "bn_gamma", "bn_beta"]
    second = network().simple_bind(
        data=(2, 5), shared_exec=first, shared_arg_names=names
    )  # fmt: skip
    assert all(second.arg_dict[n] is first.arg_dict[n] for n in names)
    assert second.aux_dict["bn_moving_mean"] is first.aux_dict["bn_moving_mean"]
    assert second.arg_dict["data"] is not first.arg_dict["data"]
    first.arg_dict["fc_bias"][:] = 2
    first.aux_dict["bn_moving_var"][:] = 1
    first.arg_dict["bn_gamma"][:] = 1
    np.testing.assert_allclose(second.forward()[0].asnumpy(), 2 / np.sqrt(1.001), rtol=1e-5)


def test_a_shared_buffer_is_used_and_filled():
    buffer = {}
    large = product().simple_bind(shared_buffer=buffer, a=(4,), b=(4,))
    small = product().simple_bind(shared_buffer=buffer, a=(2,), b=(2,))
    large.arg_dict["a"][:] = 3
    small.arg_dict["b"][:] = 1
    assert small.forward()[0].asnumpy().tolist() == [3, 3]
    assert sorted(buffer) == ["a", "b", "grad of a", "grad of b"]
    buffer.clear()
    product().simple_bind(shared_buffer=buffer, shared_arg_names=["a"], a=(4,), b=(4,))
    assert sorted(buffer) == ["b", "grad of b"]
    with pytest.raises(TypeError, match="shared_buffer"):
        product().simple_bind(shared_buffer=5, a=(4,), b=(4,))


def test_a_gradient_that_is_not_asked_for_is_shown_and_left_alone():
    args, grads = [nd.ones((2,)), nd.ones((2,))], [nd.ones((2,)), nd.ones((2,))]
    executor = product().bind(cpu(), args, grads, ["null", "add"])
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)) * 5)
    assert [g.asnumpy().tolist() for g in executor.grad_arrays] == [[1, 1], [6, 6]]


def test_one_array_is_no_list_of_arrays():
    with pytest.raises(TypeError, match="list or a dict"):
        product().bind(cpu(), nd.ones((2,)))


@pytest.mark.parametrize("tail", [lambda x: x, sym.negative])
def test_gradients_of_a_bound_table_have_its_type_whatever_the_parameter_says(tail):
    net = tail(sym.Embedding(sym.var("data"), sym.var("table"), input_dim=3, output_dim=2, dtype="float32"))
    args = {"data": nd.array([2, 0]), "table": nd.ones((3, 2), dtype="float64")}
    grads = {"table": nd.zeros((3, 2), dtype="float64")}
    executor = net.bind(cpu(), args, grads)
    (output,) = executor.forward(is_train=True)
    executor.backward(nd.ones((2, 2), dtype="float64"))
    assert output.dtype == np.float64
    np.testing.assert_array_equal(abs(grads["table"].asnumpy()), [[1, 1], [0, 0], [1, 1]])


def test_storage_types_that_are_not_dense_are_refused_unless_dense_is_asked_for() -> None:
    net = sym.Variable("data") * sym.Variable("w", stype="row_sparse")
    with pytest.raises(
        MXNetError, match=r"\[simple_bind\] w: arrays are dense, so storage type 'row_sparse'"
    ):
        net.simple_bind(data=(2,), w=(2,))
    assert net.simple_bind(data=(2,), w=(2,), stype_dict={"w": "default"}).arg_dict["w"].shape == (2,)
    with pytest.raises(MXNetError, match="data: arrays are dense, so storage type 'csr'"):
        net.simple_bind(data=(2,), w=(2,), stype_dict={"w": "default", "data": "csr"})


def test_a_reshaped_executor_writes_over_the_outputs_of_the_old_one() -> None:
    x = sym.Variable("x")
    old = sym.Group([x * 2, sym.sum(x), x]).simple_bind(cpu(), grad_req="null", x=(3, 2))
    old.forward(x=nd.ones((3, 2)))
    smaller = old.reshape(x=(2, 2))
    smaller.forward(x=nd.full((2, 2), 5))
    assert old.outputs[0].asnumpy().tolist() == [[10, 10], [10, 10], [2, 2]]
    assert old.outputs[1].asscalar() == 20
    assert [out.shape for out in smaller.outputs] == [(2, 2), (1,), (2, 2)]
    larger = old.reshape(allow_up_sizing=True, x=(4, 2))
    larger.forward(x=nd.ones((4, 2)))
    assert old.outputs[0].asnumpy().tolist() == [[10, 10], [10, 10], [2, 2]]
    assert (larger.outputs[0].asnumpy() == 2).all() and old.outputs[1].asscalar() == 8
