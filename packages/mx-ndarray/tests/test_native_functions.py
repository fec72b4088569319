# SPDX-License-Identifier: Apache-2.0
"""Calls that native code serves give what the Python function behind them gives."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from mx_core.context import cpu
from mx_core.errors import ArgumentError
from mx_ndarray import nd, random

CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (nd.zeros, ((2, 3),), {}),
    (nd.zeros, (4,), {"dtype": "int32"}),
    (nd.zeros, ([2, 0],), {"ctx": cpu(0), "dtype": np.float16}),
    (nd.zeros, ((),), {}),
    (nd.ones, ((2, 3), cpu(0), "uint8"), {}),
    (nd.ones, (), {"shape": (1, 1, 2), "dtype": np.dtype("float64")}),
    (nd.full, ((2,), 2.5), {}),
    (nd.full, ((2,), 7), {"dtype": "int64"}),
    (nd.full, ((2,), True), {"dtype": bool}),
    (nd.full, ((2,), np.float32(3)), {}),
    (nd.array, (5,), {}),
    (nd.array, ([1, 2.5, True],), {}),
    (nd.array, ([[1, 2], (3, 4)],), {"dtype": "float64"}),
    (nd.array, ([[], []],), {}),
    (nd.array, ([2**53 + 1, 1.0],), {}),
    (nd.array, ([1, 300],), {"dtype": "int32"}),
    (nd.array, (np.arange(6, dtype=np.float32).reshape(2, 3),), {}),
    (nd.array, (np.arange(6).reshape(2, 3)[:, ::2],), {}),
    (nd.array, (np.float32(2.5),), {}),
    (nd.array, ([np.float32(2.5), 1],), {}),
    (nd.array, ([[1.0, 2.0], np.array([3.0, 4.0])],), {}),
    (nd.arange, (5,), {}),
    (nd.arange, (2.5,), {"repeat": 2, "dtype": None}),
    (nd.arange, (-1, 2, 0.5), {"ctx": cpu(0), "infer_range": False}),
    (nd.arange, (3, 1, -1, 1, None, None, "int64"), {}),
    (nd.arange, (), {"start": 4, "stop": 4, "dtype": np.float16}),
    (nd.arange, (np.float32(3),), {"step": True}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_values_types_and_shapes_are_those_of_python(function: Any, args: Any, kwargs: Any) -> None:
    expected = function.__wrapped__(*args, **kwargs)
    for _ in range(2):
        made = function(*args, **kwargs)
        assert made.shape == expected.shape
        assert made.dtype == expected.dtype
        assert made.context == expected.context
        np.testing.assert_array_equal(made.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("draw", [random.uniform, random.normal])
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((-1, 2), {"shape": (3, 2)}), ((0.5, 1.5, 4), {"dtype": "float64"}), ((0, 1, [2], None, cpu(0)), {})],
)  # fmt: skip
def test_random_numbers_are_those_of_python(draw: Any, args: Any, kwargs: Any) -> None:
    random.seed(3)
    expected = [draw.__wrapped__(*args, **kwargs).asnumpy() for _ in range(2)]
    random.seed(3)
    made = [draw(*args, **kwargs).asnumpy() for _ in range(2)]
    np.testing.assert_array_equal(made, expected)
    assert made[0].dtype == expected[0].dtype


def test_a_context_block_says_where() -> None:
    with cpu(1):
        assert nd.ones((2,)).context == cpu(1)
        with cpu(2):
            assert nd.empty((2,)).context == nd.array([1.0]).context == cpu(2)
        assert random.uniform().context == cpu(1)
    assert nd.ones((2,)).context == cpu(0)


def test_out_is_filled() -> None:
    out = nd.zeros((2,))
    assert nd.ones((2,), out=out) is out
    assert out.asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("shape", [(-1,), ("a",), 2.5, None])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    for function in (nd.zeros, nd.ones, nd.empty):
        with pytest.raises(ArgumentError):
            function(shape)


def test_wrong_arguments_are_refused_as_python_does() -> None:
    for call in (lambda: nd.zeros(), lambda: nd.zeros((2,), shape=(2,)), lambda: nd.ones((2,), colour=1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        nd.array([[1.0, 2.0], [3.0]])


def test_they_look_like_functions() -> None:
    assert nd.zeros.__name__ == "zeros"
    assert "float32" in (nd.zeros.__doc__ or "")
    assert list(inspect.signature(nd.zeros).parameters) == ["shape", "ctx", "dtype", "stype", "out"]
    assert pickle.loads(pickle.dumps(nd.zeros)) is nd.zeros


def check_key(key: Any) -> None:
    """Reading and writing `x[key]`, beside NumPy."""
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x, expected = nd.array(values), values.copy()
    want = expected[key]
    np.testing.assert_array_equal(x[key].asnumpy().reshape(want.shape), want)
    assert x[key].shape == (want.shape or (1,))
    x[key], expected[key] = -7.5, -7.5
    np.testing.assert_array_equal(x.asnumpy(), expected)


KEYS: list[Any] = [
    0, -1, (0,), (1, 2), (-2, -3, -4), (1, 2, 3), (0, slice(1, 3)), (1, slice(None), slice(None)),
    (1, slice(0, 0)), (0, 1, slice(1, 4)), slice(None), slice(1, 2), slice(2, 0), ..., (0, ...), (..., 0),
    (slice(None), 1), (slice(0, 2, 2), 1), (0, slice(2, None, -1)), (slice(0, 1), slice(0, 1)), (), (0, None, 1),
    (slice(0, 1), slice(None), slice(None)), (np.int64(1), 0), [1, 0],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_regions_are_those_of_numpy(key: Any) -> None:
    check_key(key)


@pytest.mark.parametrize("key", [(2,), (0, 3), (0, 0, -5), (0, 0, 0, 0)])
def test_indices_out_of_bounds_are_refused(key: Any) -> None:
    x = nd.zeros((2, 3, 4))
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises(IndexError):
        x[key] = 1.0


def test_elements_are_numpy_scalars() -> None:
    for dtype in ("float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool", "bfloat16"):
        x = nd.ones((2, 2), dtype=dtype)
        element = x[1, 1].asscalar()
        assert element == 1
        assert type(element) is x.asnumpy().dtype.type


def test_asscalar_of_more_elements_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"\[asscalar\] expected one element, got shape \(2,\)"):
        nd.ones((2,)).asscalar()


def test_items_cannot_be_deleted() -> None:
    with pytest.raises(TypeError):
        del nd.ones((2,))[0]


def test_arrays_that_must_not_be_written_refuse() -> None:
    x = nd.ones((2,))
    x.writable = False
    with pytest.raises(ArgumentError, match="read-only"):
        x[0] = 1.0
