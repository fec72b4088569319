# SPDX-License-Identifier: Apache-2.0
"""Nodes that change nothing go; values stay."""

import numpy as np

from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.passes.stages import trace


def operators_at(net, name, shapes, **options):
    """Operators before and after a pass."""
    (step,) = [s for s in trace(net, shapes, **options) if s.name == name]
    return [n.op.name for n in step.before.nodes], [n.op.name for n in step.after.nodes]


def test_copies_casts_and_reshapes_that_change_nothing():
    x = sym.Variable("x")
    net = sym.exp(sym.reshape(sym.cast(sym.identity(x), dtype="float32"), shape=(2, 3)))
    before, after = operators_at(net, "simplify", {"x": (2, 3)})
    assert before == ["_copy", "Cast", "Reshape", "exp"]
    assert after == ["exp"]


def test_transpositions_that_cancel_out():
    x = sym.Variable("x")
    net = sym.transpose(sym.transpose(x, axes=(1, 2, 0)), axes=(2, 0, 1)) + sym.transpose(
        sym.transpose(x, axes=(1, 0, 2)), axes=(1, 0, 2)
    )
    before, after = operators_at(net, "simplify", {"x": (2, 3, 4)})
    assert before.count("transpose") == 4
    assert after == ["elemwise_add"]


def test_two_transpositions_become_one():
    x = sym.Variable("x")
    net = sym.transpose(sym.transpose(x, axes=(1, 2, 0)), axes=(1, 2, 0))
    assert operators_at(net, "simplify", {"x": (2, 3, 4)})[1] == ["transpose"]
    value = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    out = net.simple_bind(grad_req="null", x=(2, 3, 4)).forward(x=value)[0]
    np.testing.assert_array_equal(out.asnumpy(), value.transpose(1, 2, 0).transpose(1, 2, 0))


def test_reductions_of_one_element_are_reshapes():
    x = sym.Variable("x")
    for reduce in (sym.mean, sym.sum):
        net = reduce(sym.exp(x), axis=0, exclude=True)
        assert operators_at(net, "simplify", {"x": (4, 1)})[1] == ["exp", "Reshape"]
        before, after = operators_at(net, "simplify", {"x": (4, 2)})
        assert before == after
        kept = sym.exp(reduce(x, axis=1, keepdims=True))
        assert operators_at(kept, "simplify", {"x": (4, 1)})[1] == ["exp"]
    executor = sym.mean(sym.exp(x) * 2, axis=0, exclude=True).simple_bind(x=(3, 1, 1))
    out = executor.forward(is_train=True, x=nd.array([[[0.0]], [[1.0]], [[2.0]]]))[0]
    executor.backward([nd.array([1.0, 10.0, 100.0])])
    np.testing.assert_allclose(out.asnumpy(), 2 * np.exp([0.0, 1.0, 2.0]), rtol=1e-6)
    expected = 2 * np.exp([0.0, 1.0, 2.0]) * [1, 10, 100]
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy().ravel(), expected, rtol=1e-6)
    whole = sym.sum(x).simple_bind(x=(1, 1))
    assert whole.forward(x=nd.array([[5.0]]))[0].asnumpy().tolist() == [5]


def test_dropout_goes_in_inference_alone():
    net = sym.BlockGrad(sym.Dropout(sym.exp(sym.Variable("x")), p=0.9))
    before, after = operators_at(net, "no-gradients", {"x": (4,)})
    assert (before, after) == (["exp", "Dropout", "BlockGrad"], ["exp"])
    executor = net.simple_bind(grad_req="null", x=(1000,))
    assert (executor.forward(is_train=False)[0].asnumpy() == 1).all()
    assert (executor.forward(is_train=True)[0].asnumpy() == 0).mean() > 0.5


def test_outputs_that_become_one_stay_two_arrays():
    x = sym.Variable("x")
    net = sym.Group([sym.identity(x), sym.exp(x), sym.exp(x)])
    executor = net.simple_bind(x=(2,))
    executor.forward(is_train=True, x=nd.array([0.0, 1.0]))
    executor.backward([nd.ones((2,)), nd.ones((2,)), nd.ones((2,)) * 2])
    values = [out.asnumpy() for out in executor.outputs]
    np.testing.assert_allclose(values, [[0, 1], [1, np.e], [1, np.e]], rtol=1e-6)
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), [4, 1 + 3 * np.e], rtol=1e-6)
    assert len({id(out) for out in executor.outputs}) == 3


def test_a_copy_of_an_argument_is_the_argument_in_backward_too():
    """What is written between forward and backward is seen; MXNet, and a graph without passes, use what forward read."""
    w = sym.Variable("w")
    gradients = []
    for passes in ("all", "none"):
        executor = (sym.Variable("x") * sym.identity(w)).simple_bind(x=(2,), w=(2,), passes=passes)
        executor.arg_dict["w"][:] = 3
        executor.forward(is_train=True)
        executor.arg_dict["w"][:] = 5
        executor.backward(nd.ones((2,)))
        gradients.append(executor.grad_dict["x"].asnumpy().tolist())
    assert gradients == [[5, 5], [3, 3]]
