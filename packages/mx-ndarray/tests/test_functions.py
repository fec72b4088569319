# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import NDArray, nd

REFERENCE = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "modulo": np.mod, "power": np.power, "equal": np.equal, "not_equal": np.not_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "lesser": np.less,
    "lesser_equal": np.less_equal, "maximum": np.maximum, "minimum": np.minimum,
    "hypot": np.hypot, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_arrays_and_numbers_on_either_side(name: str) -> None:
    x, y = np.array([[1.0], [3.0]], np.float32), np.array([1.0, 2.0, 3.0], np.float32)
    call: Any = getattr(nd, name)
    cases = [
        (call(nd.array(x), nd.array(y)), REFERENCE[name](x, y)),
        (call(nd.array(x), 2), REFERENCE[name](x, 2)),
        (call(2, nd.array(y)), REFERENCE[name](2, y)),
    ]
    for got, expected in cases:
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-6)
    assert float(call(2, 3)) == float(REFERENCE[name](2, 3))


def test_joining_and_splitting() -> None:
    a = nd.array([[1, 2], [3, 4]])
    assert nd.concatenate([a, a], axis=1).shape == (2, 4)
    assert nd.concatenate([a], always_copy=False) is a
    with pytest.raises(ArgumentError):
        nd.concatenate([])
    pieces = nd.split_v2(nd.arange(6), (1, 4))
    assert [piece.asnumpy().tolist() for piece in pieces] == [[0], [1, 2, 3], [4, 5]]
    assert len(nd.split_v2(nd.arange(6), 3)) == 3
    assert nd.arange(6).split_v2(2)[1].asnumpy().tolist() == [3, 4, 5]


def test_moveaxis() -> None:
    a = nd.ones((2, 3, 4))
    assert nd.moveaxis(a, 0, 2).shape == (3, 4, 2)
    assert nd.moveaxis(a, (0, 1), (-1, 0)).shape == (3, 4, 2)
    with pytest.raises(ArgumentError):
        nd.moveaxis(a, 5, 0)


def test_onehot_and_histogram() -> None:
    out = nd.zeros((2, 3))
    nd.onehot_encode(nd.array([0, 2]), out)
    assert out.asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]]
    counts, edges = nd.histogram(nd.array([0, 1, 1, 4]), bins=2, range=(0, 4))
    assert counts.asnumpy().tolist() == [3, 1]
    assert edges.asnumpy().tolist() == [0, 2, 4]


def test_numpy_arrays_are_operands() -> None:
    a = nd.array([1, 5])
    assert nd.maximum(a, np.array([3, 3])).asnumpy().tolist() == [3, 5]
    assert nd.minimum(np.array([3, 3]), a).asnumpy().tolist() == [1, 3]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda a: nd.maximum(a, "x"), r"\[broadcast_maximum\] .*got 'x'"),
        (lambda a: nd.logical_and(None, a), r"\[broadcast_logical_and\] .*got None"),
        (lambda a: nd.full((2,), "x"), r"\[full\] val: .*got 'x'"),
        (lambda a: nd.histogram(a, bins=0), r"\[histogram\] bins=0"),
        (lambda a: nd.histogram(a, bins=3, range=(3, 1)), r"\[histogram\] bins=3, range=\(3, 1\)"),
        (lambda a: nd.one_hot(a, depth=3, dtype="foo"), r"\[one_hot\] dtype: unknown element type 'foo'"),
    ],
)
def test_wrong_values_are_named_with_the_function(call: Callable[[NDArray], Any], names: str) -> None:
    with pytest.raises((MXNetError, TypeError), match=names):
        call(nd.array([1, 2]))
