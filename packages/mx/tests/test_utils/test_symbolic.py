# SPDX-License-Identifier: Apache-2.0
"""Checks of a symbol's outputs and gradients accept what is right and refuse what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import mx
from mx import test_utils as utils

X, Y = np.array([[1.0, 2]]), np.array([[3.0, 5]])


def variables(*names: str) -> list[mx.sym.Symbol]:
    return [mx.sym.Variable(name) for name in names]


def test_forward() -> None:
    a, b = variables("a", "b")
    outputs = utils.check_symbolic_forward(a * b, {"a": X, "b": Y}, [X * Y])
    assert outputs[0].dtype == np.float32
    utils.check_symbolic_forward(mx.sym.Group([a + b, a - b]), [X, Y], [X + Y, X - Y])
    with pytest.raises(AssertionError, match="EXPECTED__mul.*"):
        utils.check_symbolic_forward(a * b, [X, Y], [X * Y + 1])
    with pytest.raises(AssertionError, match="EXPECTED__minus"):
        utils.check_symbolic_forward(mx.sym.Group([a + b, a - b]), [X, Y], [X + Y, X + Y])
    with pytest.raises(ValueError, match=r"expected arrays for \['a', 'b'\], got \['c'\]"):
        utils.check_symbolic_forward(a * b, {"c": X}, [X])
    with pytest.raises(ValueError, match=r"expected 2 arrays \(a, b\), got 1"):
        utils.check_symbolic_forward(a * b, [X], [X])
    assert utils.check_symbolic_forward(a * b, [X, Y], [X * Y], dtype="float64")[0].dtype == np.float64


def test_forward_is_that_of_inference() -> None:
    dropped = mx.sym.Dropout(mx.sym.Variable("a"), p=0.5)
    utils.check_symbolic_forward(dropped, [np.ones((8, 8))], [np.ones((8, 8))])
    assert utils.simple_forward(dropped, a=np.ones((8, 8))).min() == 1
    assert utils.simple_forward(dropped, a=np.ones((8, 8)), is_train=True).min() == 0


def test_backward_with_every_request() -> None:
    a, b = variables("a", "b")
    for req in ("write", "add", {"a": "add", "b": "write"}, ["null", "write"]):
        utils.check_symbolic_backward(a * b, [X, Y], [np.ones_like(X) * 2], [2 * Y, 2 * X], grad_req=req)
        wrong = [2 * Y, 2 * X + 1]
        with pytest.raises(AssertionError, match="BACKWARD_b"):
            utils.check_symbolic_backward(a * b, [X, Y], [np.ones_like(X) * 2], wrong, grad_req=req)
    grads = utils.check_symbolic_backward(a * b, [X, Y], None, {"b": X})
    assert list(grads) == ["b"]
    np.testing.assert_array_equal(grads["b"].asnumpy(), X)
    with pytest.raises(AssertionError, match="BACKWARD_a"):
        utils.check_symbolic_backward(a * b, [X, Y], None, [X, X])


def test_backward_takes_head_gradients_by_name() -> None:
    a, b = variables("a", "b")
    both = mx.sym.Group([(a * 2).astype("float32"), a * b])
    first, second = both.list_outputs()
    heads = {second: np.full_like(X, 10.0), first: np.ones_like(X)}
    utils.check_symbolic_backward(both, [X, Y], heads, {"a": 2 + 10 * Y, "b": 10 * X})
    with pytest.raises(ValueError, match="out_grads"):
        utils.check_symbolic_backward(both, [X, Y], {"other": X}, {"a": X})


def test_outputs_as_numpy() -> None:
    (a,) = variables("a")
    np.testing.assert_array_equal(utils.simple_forward(a + 1, a=X), X + 1)
    one, two = utils.simple_forward(mx.sym.Group([a + 1, a * 3]), a=X)
    np.testing.assert_array_equal([one, two], [X + 1, X * 3])


def test_structures() -> None:
    a, b = variables("a", "b")
    assert utils.same_symbol_structure(mx.sym.tanh(a + b), mx.sym.tanh(b + a, name="other"))
    assert not utils.same_symbol_structure(mx.sym.tanh(a + b), mx.sym.tanh(a - b))
    assert not utils.same_symbol_structure(mx.sym.tanh(a + b), a + b)
    assert not utils.same_symbol_structure(a + b, mx.sym.tanh(a + b))


def test_numeric_gradients() -> None:
    a, b = variables("a", "b")
    x, y = np.random.default_rng(0).normal(size=(2, 3, 2))
    utils.check_numeric_gradient(mx.sym.tanh(a) * b, [x, y], dtype=np.float64)
    utils.check_numeric_gradient(mx.sym.tanh(a) * b, [x, y], grad_nodes={"a": "add", "b": "null"}, rtol=1e-2)
    utils.check_numeric_gradient(mx.sym.Group([a * a, a + b]), [x, y], dtype=np.float64)
    utils.check_numeric_gradient(
        mx.sym.BatchNorm(a, fix_gamma=False, name="n"), [x, np.ones(2), np.zeros(2)],
        [np.zeros(2), np.ones(2)], rtol=1e-2, dtype=np.float64,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="NUMERICAL_a"):
        utils.check_numeric_gradient(mx.sym.BlockGrad(a * 2), [x])
    with pytest.raises(ValueError, match="floating type"):
        utils.check_numeric_gradient(a * 2, [x], dtype=np.int32)


def test_numeric_gradients_of_chosen_arguments() -> None:
    a, b = variables("a", "b")
    net = mx.sym.BlockGrad(a) * b
    x, y = np.random.default_rng(1).normal(size=(2, 3, 2))
    utils.check_numeric_gradient(net, [x, y], grad_nodes=["b"], dtype=np.float64)
    with pytest.raises(AssertionError, match="NUMERICAL_a"):
        utils.check_numeric_gradient(net, [x, y], dtype=np.float64)


def test_numeric_gradients_by_themselves() -> None:
    (a,) = variables("a")
    x = np.array([[1.0, -2], [3, 0.5]])
    executor = (a * a * a).bind(mx.cpu(), args={"a": mx.nd.array(x, dtype="float64")})
    grads = utils.numeric_grad(executor, {"a": x}, dtype=np.float64)
    np.testing.assert_allclose(grads["a"], 3 * x**2, rtol=1e-6)
    np.testing.assert_array_equal(executor.arg_dict["a"].asnumpy(), x)


def test_numeric_gradients_of_many_elements_are_precise_in_float32() -> None:
    for seed in range(5):
        np.random.seed(seed)
        x, y = variables("x", "y")
        data = [np.random.randn(3, 4, 5), np.random.randn(3, 4, 5)]
        utils.check_numeric_gradient(mx.sym.contrib.quadratic(x, a=0.7, b=0.3, c=0.9), data[:1], atol=1e-3)
        utils.check_numeric_gradient(mx.sym.Group([x * y, x + y]), data, atol=1e-3)


def test_an_operator_of_ones_own() -> None:
    class Cube(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
            self.assign(out_data[0], req[0], in_data[0] ** 3)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):  # type: ignore[no-untyped-def]
            self.assign(in_grad[0], req[0], 3 * in_data[0] ** 2 * out_grad[0])

    @mx.operator.register("checked_cube")
    class CubeProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):  # type: ignore[no-untyped-def]
            return Cube()

    net = mx.sym.Custom(mx.sym.Variable("a"), op_type="checked_cube")
    utils.check_numeric_gradient(net, [np.random.rand(3, 2) + 0.5], dtype=np.float64)
