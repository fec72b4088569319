# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.context import cpu
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_core.testing import check_kernel, check_operator
from mx_ndarray import autograd, nd
from mx_symbol import sym

SHAPES = [((7,), 3), ((2, 5), 1), ((2, 5), 5), ((3, 1), 1), ((2, 3, 40), 7), ((0, 4), 2), ((2, 9), 8)]


@pytest.mark.parametrize(("shape", "window"), SHAPES)
def test_moving_average(shape: tuple[int, ...], window: int) -> None:
    check_operator("moving_average", {"window": window}, [shape])
    check_kernel("moving_average", {"window": window}, [shape], variant="example_native")


@pytest.mark.parametrize(("shape", "window"), SHAPES)
def test_its_gradient(shape: tuple[int, ...], window: int) -> None:
    check_operator("_backward_moving_average", {"window": window}, [shape])
    check_kernel("_backward_moving_average", {"window": window}, [shape], variant="example_native")


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(0, 59), st.integers(0, 3))
def test_native_kernel_averages_every_window(window: int, more: int, rows: int) -> None:
    data = np.random.default_rng(more).normal(size=(rows, window + more))
    found = nd.moving_average(nd.array(data, dtype="float64"), window=window).asnumpy()
    expected = [[row[i : i + window].mean() for i in range(more + 1)] for row in data]
    np.testing.assert_allclose(found, np.reshape(expected, (rows, more + 1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_nan_stays_within_its_windows(dtype: str) -> None:
    x = np.arange(9, dtype=dtype)
    x[4] = np.nan
    means = nd.moving_average(nd.array(x, dtype=dtype), window=3).asnumpy()
    assert np.isnan(means).tolist() == [False, False, True, True, True, False, False]
    assert means[5:].tolist() == [6, 7]


def test_gradient_counts_in_how_many_windows_a_value_is() -> None:
    x = nd.array([1, 2, 3, 4, 5])
    x.attach_grad()
    with autograd.record():
        y = 2 * nd.moving_average(x, window=2)
    y.backward()
    assert y.asnumpy().tolist() == [3, 5, 7, 9]
    assert x.grad.asnumpy().tolist() == [1, 2, 2, 2, 1]


def test_symbol_infers_both_ways_and_runs() -> None:
    net = sym.moving_average(sym.Variable("x"), window=3, name="smooth")
    assert net.infer_shape(x=(2, 8)) == ([(2, 8)], [(2, 6)], [])
    total = sym.moving_average(sym.Variable("x"), window=3) + sym.Variable("y")
    assert total.infer_shape(y=(2, 6))[0] == [(2, 8), (2, 6)]
    executor = sym.load_json(net.tojson()).simple_bind(x=(1, 4))
    executor.forward(is_train=True, x=nd.array([[3, 6, 9, 12]]))
    executor.backward(nd.array([[3, 6]]))
    assert executor.outputs[0].asnumpy().tolist() == [[6, 9]]
    assert executor.grad_dict["x"].asnumpy().tolist() == [[1, 3, 3, 2]]


def test_gradients_add_up_where_a_request_says_so() -> None:
    x, grad = nd.array([3, 6, 9, 12]), nd.array([100, 100, 100, 100])
    net = sym.moving_average(sym.Variable("x"), window=3)
    executor = net.bind(cpu(), args={"x": x}, args_grad={"x": grad}, grad_req="add")
    executor.forward(is_train=True)
    executor.backward(nd.array([3, 6]))
    assert grad.asnumpy().tolist() == [101, 103, 103, 102]


def test_wrong_use_is_explained() -> None:
    with pytest.raises(ShapeError, match=r"\[moving_average\] data: .*window=4 .*got \(2, 3\)"):
        nd.moving_average(nd.ones((2, 3)), window=4)
    with pytest.raises(DTypeError, match=r"\[moving_average\] data: .*got int32"):
        nd.moving_average(nd.ones((5,), dtype="int32"), window=2)
    with pytest.raises(ArgumentError, match=r"\[moving_average\] window: expected at least 1, got 0"):
        nd.moving_average(nd.ones((5,)), window=0)
    with pytest.raises(ArgumentError, match="window"):
        nd.moving_average(nd.ones((5,)))
