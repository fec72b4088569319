# SPDX-License-Identifier: Apache-2.0
"""Symbols without inputs, random ones, and pieces of an array."""

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_symbol import sym


def value(symbol, **arrays):
    return [output.asnumpy() for output in symbol.eval(**arrays)]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (sym.zeros((2, 3)), np.zeros((2, 3), "float32")),
        (sym.ones(2, dtype="int32"), np.ones(2, "int32")),
        (sym.full((2,), 7), np.full(2, 7, "float32")),
        (sym.arange(1, 7, 2), np.arange(1, 7, 2, "float32")),
        (sym.arange(3, repeat=2, dtype="int64"), np.repeat(np.arange(3), 2)),
        (sym.eye(2, 3, 1), np.eye(2, 3, 1, dtype="float32")),
        (sym.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype="float32")),
    ],
)
def test_constants(made, expected):
    (found,) = value(made)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected)


def test_a_constant_joins_a_graph():
    net = sym.Variable("a") + sym.ones((2,))
    assert net.infer_shape()[0] == [(2,)]
    assert value(net, a=nd.ones((2,)))[0].tolist() == [2, 2]


def test_pieces():
    a = nd.array(np.arange(6))
    x = sym.Variable("a")
    assert [p.tolist() for p in value(sym.split_v2(x, 3), a=a)] == [[0, 1], [2, 3], [4, 5]]
    assert [p.tolist() for p in value(x.split_v2((1, 4)), a=a)] == [[0], [1, 2, 3], [4, 5]]


def test_random_symbols_draw_anew_at_every_run():
    executor = sym.random.uniform(2, 3, shape=(500,)).simple_bind()
    first = executor.forward()[0].asnumpy()
    second = executor.forward()[0].asnumpy()
    assert (first != second).any()
    assert 2 <= first.min() < first.max() < 3
    normal = value(sym.random.normal(5, 0.1, shape=(500,)))[0]
    assert abs(normal.mean() - 5) < 0.1
    assert value(sym.random.randn(2, 3))[0].shape == (2, 3)


def test_distributions_take_numbers_or_symbols_but_not_both():
    with pytest.raises(ArgumentError, match="low, high"):
        sym.random.uniform(sym.Variable("a"), 1)
    assert "uniform" in dir(sym.random)
