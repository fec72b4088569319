# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from mx_core.testing import check_kernel, check_operator
from mx_ndarray import autograd, nd
from mx_symbol import sym

COEFFICIENTS = {"a": 1.5, "b": -2.0, "c": 0.25}


def test_quadratic_declaration() -> None:
    check_operator("quadratic", COEFFICIENTS)


def test_quadratic_kernel() -> None:
    check_kernel("quadratic", COEFFICIENTS)


@pytest.mark.parametrize("delta", [0.5, 1.0, 4.0])
def test_pseudo_huber(delta: float) -> None:
    check_operator("pseudo_huber", {"delta": delta}, low=-6, high=6)
    check_kernel("pseudo_huber", {"delta": delta}, low=-6, high=6)


def test_pseudo_huber_is_a_parabola_near_zero_and_a_line_far_away() -> None:
    x = nd.array([1e-12, 1e-3, 0.0, -1e4, 1e4], dtype="float64")
    y = nd.pseudo_huber(x, delta=2.0).asnumpy()
    np.testing.assert_allclose(y, [5e-25, 5e-7, 0, 2e4 - 4, 2e4 - 4], rtol=1e-6)


def test_arrays_record_gradients() -> None:
    x = nd.array([-1, 0, 2])
    x.attach_grad()
    with autograd.record():
        y = nd.quadratic(x, a=1, b=2, c=3)
    y.backward()
    assert y.asnumpy().tolist() == [2, 3, 11]
    assert x.grad.asnumpy().tolist() == [0, 2, 6]


def test_second_derivative() -> None:
    x = nd.array([-1, 0, 2])
    x.attach_grad()
    with autograd.record():
        y = nd.quadratic(x, a=1.5, b=2)
        (slope,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
    slope.backward()
    assert x.grad.asnumpy().tolist() == [3, 3, 3]


def test_a_changed_coefficient_is_seen() -> None:
    x = nd.array([1, 2])
    assert [nd.quadratic(x, a=a).asnumpy().tolist() for a in (1, 2, 3)] == [[1, 4], [2, 8], [3, 12]]


def test_symbol_infers_runs_and_travels_as_json() -> None:
    net = sym.quadratic(sym.Variable("x"), a=1, b=2, c=3, name="quad")
    assert net.infer_shape(x=(2, 3)) == ([(2, 3)], [(2, 3)], [])
    again = sym.load_json(net.tojson())
    assert again.tojson() == net.tojson()
    executor = again.simple_bind(x=(3,))
    executor.forward(is_train=True, x=nd.array([-1, 0, 2]))
    executor.backward(nd.ones((3,)))
    assert executor.outputs[0].asnumpy().tolist() == [2, 3, 11]
    assert executor.grad_dict["x"].asnumpy().tolist() == [0, 2, 6]


def test_documentation_names_parameters() -> None:
    for function in (nd.quadratic, sym.quadratic):
        assert "coefficient of the square" in function.__doc__
