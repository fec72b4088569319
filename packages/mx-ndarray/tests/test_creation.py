# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import context
from mx_core.errors import ArgumentError, DTypeError
from mx_ndarray import nd

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "bfloat16")


@pytest.mark.parametrize("source", [[1, 2], (1, 2), np.array([1, 2]), np.array([1.0, 2.0]), range(1, 3)])
def test_everything_becomes_float32_unless_told(source: Any) -> None:
    a = nd.array(source)
    assert a.dtype == np.float32
    assert a.asnumpy().tolist() == [1, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_goes_there_and_back(dtype: str) -> None:
    a = nd.array([[0, 1], [1, 0]], dtype=dtype)
    assert a.asnumpy().dtype == a.dtype
    assert a.astype("float32").asnumpy().tolist() == [[0, 1], [1, 0]]


def test_an_array_of_an_array_keeps_its_type_and_is_a_copy() -> None:
    a = nd.ones((2,), dtype="int32")
    b = nd.array(a)
    b[:] = 5
    assert (b.dtype, a.asnumpy().tolist()) == (np.int32, [1, 1])
    assert nd.array([nd.ones((2,)), nd.zeros((2,))]).shape == (2, 2)


def test_strided_sources_are_copied() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert nd.array(source).asnumpy().tolist() == source.tolist()


def test_what_is_no_array_is_refused() -> None:
    for source in ([[1, 2], [3]], "text", object(), {"a": 1}):
        with pytest.raises(TypeError):
            nd.array(source)


def test_constants() -> None:
    assert nd.zeros(3).asnumpy().tolist() == [0, 0, 0]
    assert nd.ones((2, 1), dtype="int8").asnumpy().tolist() == [[1], [1]]
    assert nd.full((2,), 2.5).asnumpy().tolist() == [2.5, 2.5]
    assert nd.empty((2, 3), dtype="uint8").shape == (2, 3)
    assert nd.eye(2, 3, 1).asnumpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert nd.arange(3).asnumpy().tolist() == [0, 1, 2]
    assert nd.arange(1, 2, 0.5, repeat=2).asnumpy().tolist() == [1, 1, 1.5, 1.5]
    assert nd.linspace(0, 1, 3).asnumpy().tolist() == [0, 0.5, 1]
    assert nd.zeros((2, 0)).asnumpy().shape == (2, 0)
    with pytest.raises(ArgumentError):
        nd.zeros((2,), stype="csr")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("zeros", [2]), ("ones", [2]), ("full", [2, 1]), ("empty", [2]), ("array", [[1]]), ("arange", [2]),
        ("linspace", [0, 1, 2]), ("eye", [2]),
    ],
)  # fmt: skip
def test_errors_name_function_argument_and_value(name: str, arguments: list[Any]) -> None:
    with pytest.raises(DTypeError, match=rf"^\[{name}\] dtype: unknown element type 'foo'; known: float32, "):
        getattr(nd, name)(*arguments, dtype="foo")
    if name in ("zeros", "ones", "full", "empty"):
        for shape in ("foo", (2, 1.5), (2, -1), None):
            with pytest.raises(ArgumentError, match=rf"^\[{name}\] shape: expected .*, got "):
                getattr(nd, name)(shape, *arguments[1:])


def test_the_error_of_astype() -> None:
    with pytest.raises(DTypeError, match=r"^\[astype\] dtype: unknown element type 'foo'"):
        nd.ones(1).astype("foo")


def test_contexts() -> None:
    assert nd.array([1], ctx=context.cpu(1)).context == context.cpu(1)
    assert nd.ones((1,)).as_in_context(context.cpu(1)).context == context.cpu(1)


def test_zero_copy_from_numpy_shares_memory() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = nd.from_numpy(source)
    a += 1
    a.wait_to_read()
    assert source.tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="read-only"):
        source[0, 0] = 9
    del source
    assert a.asnumpy().sum() == 21
    copied = nd.from_numpy(np.ones(2, dtype=np.int64), zero_copy=False)
    assert copied.dtype == np.int64
    with pytest.raises(ArgumentError, match="contiguous"):
        nd.from_numpy(np.ones((3, 3))[:, ::2])


def test_bad_shapes_are_named() -> None:
    for wrong in ("a", 2.5, (1, "a"), None):
        with pytest.raises(ArgumentError, match="shape: expected integers"):
            nd.zeros(wrong)  # type: ignore[arg-type]


def test_only_native_bytes_are_shared() -> None:
    swapped = np.array([1, 2], ">f4")
    with pytest.raises(ArgumentError, match="byte order"):
        nd.from_numpy(swapped)
    assert nd.array(swapped).asnumpy().tolist() == [1, 2]
    with pytest.raises(TypeError, match="NumPy array"):
        nd.from_numpy([1, 2])  # type: ignore[arg-type]


def test_numpy_arrays_are_shapes() -> None:
    shape = np.array([2, 3])
    for made in (nd.empty(shape), nd.zeros(shape), nd.ones(shape), nd.full(shape, 1)):
        assert made.shape == (2, 3)
    assert nd.empty(np.array([2])).shape == (2,) and nd.empty(np.int64(2)).shape == (2,)
    assert nd.ones((6,)).reshape(shape).shape == nd.ones((6,)).reshape(shape=shape).shape == (2, 3)
    assert nd.ones((1, 3)).broadcast_to(shape).shape == (2, 3)
    assert nd.broadcast_to(nd.ones((1, 3)), shape=shape).shape == (2, 3)
