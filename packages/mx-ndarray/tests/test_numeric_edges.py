# SPDX-License-Identifier: Apache-2.0
"""Values at the edges of types and of parameters, as MXNet has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_ndarray import autograd, nd

TYPES = ("float32", "float64", "float16", "bfloat16")


def _values(array: Any) -> np.ndarray:
    values: np.ndarray = array.astype("float64").asnumpy()
    return values


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rint_keeps_integers(dtype: str) -> None:
    data = np.array([2**23 + 1, 2**23 + 3, 2**24 - 1, -(2**23) - 1], dtype)
    np.testing.assert_array_equal(nd.rint(nd.array(data, dtype=dtype)).asnumpy(), data)


@pytest.mark.parametrize("dtype", TYPES)
def test_rint_takes_halves_downwards_and_keeps_the_sign_of_floor_or_ceil(dtype: str) -> None:
    data = [0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, np.nan]
    want = [0.0, -0.0, 0.0, -0.0, 0.0, -1.0, 1.0, 2.0, -3.0, np.inf, np.nan]
    got = _values(nd.rint(nd.array(data).astype(dtype)))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[:-1], np.signbit(want)[:-1])


@pytest.mark.parametrize("dtype", TYPES)
def test_full_of_negative_zero(dtype: str) -> None:
    assert np.signbit(_values(nd.full((70,), -0.0, dtype=dtype))).all()
    assert not np.signbit(_values(nd.full((70,), 0.0, dtype=dtype))).any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_temperature_of_zero_gives_nan(name: str, dtype: str) -> None:
    data = nd.array([[1, 2, -3.0]]).astype(dtype)
    data.attach_grad()
    with autograd.record():
        output = getattr(nd, name)(data, temperature=0)
    output.backward()
    assert np.isnan(_values(output)).all() and np.isnan(_values(data.grad)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "value"), [("softmax", 1.0), ("log_softmax", 0.0), ("softmin", 1.0)])
def test_softmax_of_a_scalar(name: str, value: float, dtype: str) -> None:
    data = nd.array(3.0).reshape(()).astype(dtype)
    data.attach_grad()
    with autograd.record():
        output = getattr(nd, name)(data)
    output.backward()
    assert output.shape == () and _values(output) == value and _values(data.grad) == 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("data", "gamma", "axes"),
    [
        ((3, 4), (1,), (0, 1)), ((3, 4), (4,), 0), ((3, 4), (3,), 1), ((3, 4), (3, 4), ()), ((3, 4), (3, 1), 1),
        ((3, 4), (1, 1), (0, 1)), ((2, 3, 5), (2,), (1, 2)), ((2, 3, 5), (2, 3), 2), ((4,), (4,), ()),
        ((4,), (1,), 0), ((2, 3, 5), (), (0, 1, 2)),
    ],
)  # fmt: skip
def test_prelu_broadcasts_slopes_over_examples_and_channels(
    data: tuple[int, ...], gamma: tuple[int, ...], axes: Any, dtype: str
) -> None:
    x = nd.array(-np.arange(1, 1 + np.prod(data)).reshape(data)).astype(dtype)
    slopes = (nd.ones(gamma) * 0.5).astype(dtype)
    slopes.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, slopes, act_type="prelu")
    y.backward()
    np.testing.assert_array_equal(_values(y), _values(x) / 2)
    np.testing.assert_allclose(_values(slopes.grad), _values(x).sum(axes).reshape(gamma), rtol=4e-3)


def test_prelu_refuses_slopes_that_fit_nothing() -> None:
    with pytest.raises(ValueError, match=r"gamma: cannot broadcast \(5,\) over the examples and channels"):
        nd.LeakyReLU(nd.ones((2, 3, 5)), nd.ones((5,)), act_type="prelu")


@pytest.mark.parametrize(
    ("kind", "number"), [("int64", 2**53 + 1), ("int64", -(2**62) - 1), ("uint64", 2**63 + 5)]
)
def test_integers_that_float64_rounds_are_exact_wherever_a_number_goes(kind: str, number: int) -> None:
    assert nd.full((2,), number, dtype=kind).asnumpy().tolist() == [number] * 2
    out = nd.zeros((2,), dtype=kind)
    nd.full((2,), number, dtype=kind, out=out)
    assert out.asnumpy().tolist() == [number] * 2
    for key in (0, slice(None), slice(0, 1), [0], slice(None, None, 2)):
        array, host = nd.zeros((3,), dtype=kind), np.zeros((3,), kind)
        array[key] = number
        host[key] = number
        assert array.asnumpy().tolist() == host.tolist(), key
    table = nd.zeros((2, 3), dtype=kind)
    table[:, 1] = number
    assert table.asnumpy().tolist() == [[0, number, 0]] * 2
    array = nd.array(np.array([number, number - 1 if number > 0 else number + 1], kind), dtype=kind)
    assert nd.maximum(array, number).asnumpy().tolist() == np.maximum(array.asnumpy(), number).tolist()
    assert nd.minimum(number, array).asnumpy().tolist() == np.minimum(array.asnumpy(), number).tolist()


@pytest.mark.parametrize("made", [int, np.int64], ids=["int", "int64"])
def test_arithmetic_with_integers_that_float64_rounds_is_exact(made: type) -> None:
    number = 2**53 + 1
    one, same = nd.array([1], dtype="int64"), nd.array(np.array([number]), dtype="int64")
    results = (
        one + made(number),
        made(number) + one,
        one * made(number),
        same - made(number),
        same % made(number),
    )
    assert [int(y.asscalar()) for y in results] == [number + 1, number + 1, number, 0, 0]
    assert [int(y.asscalar()) for y in (same == made(number), one >= made(number))] == [1, 0]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("uint8", [12, 16], 20), ("int8", [60, 80], 100), ("int32", [60000, 80000], 100000),
        ("int64", [3 * 10**9, 4 * 10**9], 5 * 10**9),
    ],
)  # fmt: skip
def test_norms_of_integers_are_truncated_once(kind: str, values: list[int], expected: int) -> None:
    assert nd.norm(nd.array(np.array(values), dtype=kind)).asscalar() == expected


def test_numbers_beyond_the_type_are_as_before() -> None:
    assert nd.full((1,), 2**53 + 1).asnumpy().tolist() == [float(np.float32(2**53))]
    assert nd.full((1,), True, dtype="int64").asnumpy().tolist() == [1]
