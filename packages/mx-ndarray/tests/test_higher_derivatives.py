# SPDX-License-Identifier: Apache-2.0
"""Gradients of gradients on the tape, against differences; what is not offered is an error and never zero."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import autograd, nd

Function = Callable[..., Any]

CASES: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "FullyConnected": (lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=4), [(2, 3), (4, 3), (4,)]),
    "FullyConnected, last axis": (
        lambda x, w: nd.FullyConnected(x, w, num_hidden=4, no_bias=True, flatten=False), [(2, 2, 3), (4, 3)],
    ),
    "Convolution": (
        lambda x, w, b: nd.Convolution(x, w, b, kernel=(2, 2), num_filter=3), [(1, 2, 4, 4), (3, 2, 2, 2), (3,)],
    ),
    "Convolution in groups": (
        lambda x, w: nd.Convolution(x, w, kernel=(2, 2), num_filter=4, no_bias=True, stride=(2, 2), num_group=2),
        [(1, 2, 4, 4), (4, 1, 2, 2)],
    ),
    "Deconvolution": (
        lambda x, w: nd.Deconvolution(x, w, kernel=(2, 2), num_filter=3), [(1, 2, 3, 3), (2, 3, 2, 2)],
    ),
    "dot": (lambda a, b: nd.dot(a, b, transpose_a=True, transpose_b=True), [(3, 2), (4, 3)]),
    "Concat": (lambda a, b: nd.concat(a, b, dim=1), [(2, 3), (2, 2)]),
    "softmax": (lambda a: nd.softmax(a, axis=0, temperature=2.0), [(2, 3)]),
    "softmin": (lambda a: nd.softmin(a, axis=1), [(2, 3)]),
    "log_softmax": (lambda a: nd.log_softmax(a, axis=1), [(2, 3)]),
    "Pooling": (lambda a: nd.Pooling(a, kernel=(2, 2), pool_type="avg"), [(1, 1, 3, 3)]),
    "LeakyReLU": (lambda a: nd.LeakyReLU(a - 1, act_type="elu"), [(3, 2)]),
    "Embedding": (lambda w: nd.Embedding(nd.array([0, 2, 0]), w, input_dim=3, output_dim=2), [(3, 2)]),
    "take": (lambda w: nd.take(w, nd.array([0, 2, 0])), [(3, 2)]),
    "pick": (lambda w: nd.pick(w, nd.array([0, 1, 1])), [(3, 2)]),
    "gather_nd": (lambda w: nd.gather_nd(w, nd.array([[0, 1], [1, 0]])), [(3, 2)]),
    "tile": (lambda a: nd.tile(a, reps=(2, 2)), [(2, 3)]),
    "repeat": (lambda a: nd.repeat(a, repeats=2, axis=1), [(2, 3)]),
    "Pad": (
        lambda a: nd.Pad(a, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1), constant_value=3.0), [(1, 1, 2, 3)],
    ),
    "MakeLoss": (lambda a: nd.MakeLoss(a * a), [(2, 3)]),
    "broadcast_mul": (nd.broadcast_mul, [(2, 3), (1, 3)]),
}  # fmt: skip


def second(function: Function, values: list[np.ndarray]) -> tuple[list[Any], Any]:
    """Σ sin(i·gradᵢ) of the gradients of Σ sin(f), and the arrays it can be differentiated by."""
    arrays = [nd.array(value, dtype="float64") for value in values]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        total = nd.sin(function(*arrays)).sum()
        grads = autograd.grad(total, arrays, create_graph=True)
        result = nd.add_n(*(nd.sin(grad * (i + 1)).sum() for i, grad in enumerate(grads)))
    return arrays, result


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_those_of_differences(name: str) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    values = [rng.uniform(0.2, 1.2, shape) for shape in shapes]
    steps = [rng.normal(size=shape) for shape in shapes]
    arrays, result = second(function, values)
    result.backward()
    found = sum((a.grad.asnumpy() * step).sum() for a, step in zip(arrays, steps, strict=True))
    ends = [
        second(function, [v + sign * 1e-5 * s for v, s in zip(values, steps, strict=True)])[1].asscalar()
        for sign in (1, -1)
    ]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_derivatives_of_any_order() -> None:
    x = nd.array([0.5], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y, z = nd.sin(x), x * x * x
        orders = []
        for _ in range(4):
            (y,) = autograd.grad(y, [x], create_graph=True)
            (z,) = autograd.grad(z + 0 * x, [x], create_graph=True)
            orders.append((y.asscalar(), z.asscalar()))
    s, c = np.sin(0.5), np.cos(0.5)
    np.testing.assert_allclose(orders, [(c, 0.75), (-s, 3), (-c, 6), (s, 0)], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Pooling", lambda x: nd.Pooling(x * x, kernel=(2, 2), pool_type="max")),
        (
            "BatchNorm",
            lambda x: nd.BatchNorm(x, nd.ones((2,)), nd.zeros((2,)), nd.zeros((2,)), nd.ones((2,))),
        ),
    ],
)
def test_what_is_not_offered_is_an_error_where_it_is_needed(name: str, function: Function) -> None:
    x = nd.array(np.random.default_rng(0).normal(size=(2, 2, 2, 2)))
    x.attach_grad()
    with autograd.record():
        y = function(x)
        (grad,) = autograd.grad(y, [x], create_graph=True)
        total = (grad * grad).sum()
    assert np.isfinite(total.asscalar())  # the first derivative is fine
    with pytest.raises(MXNetError, match=rf"\[{name}\] derivatives of higher order are not implemented"):
        total.backward()


def test_a_temperature_of_0_has_no_derivative_and_fails_nowhere() -> None:
    x = nd.array([[1, 2]])
    x.attach_grad()
    with autograd.record():
        (grad,) = autograd.grad(nd.softmax(x, temperature=0), [x], create_graph=True)
    grad.backward()
    assert np.isnan(x.grad.asnumpy()).all()  # type: ignore[union-attr]


def test_the_number_of_gradients_that_are_not_offered_is_bounded() -> None:
    with pytest.raises(ArgumentError, match="num_outputs: expected at most"):
        nd._internal._backward_not_offered(operator="x", num_outputs=2**40)
