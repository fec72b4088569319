# SPDX-License-Identifier: Apache-2.0
"""Symbols without inputs, random ones, and partitions of an array."""

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
    with pytest.raises(ArgumentError, match="scale: expected a finite number above 0, got -3$"):
        sym.random.exponential(-3)


def test_histograms_count_between_edges():
    a = nd.array([0.1, 0.2, 0.7, 0.8, 0.9, 5.0])
    x = sym.Variable("a")
    counts, edges = value(sym.histogram(x, bins=2, range=(0, 1)), a=a)
    assert counts.tolist() == [2, 3]
    np.testing.assert_allclose(edges, [0, 0.5, 1])
    counts, edges = value(sym.histogram(x, sym.Variable("b")), a=a, b=nd.array([0, 0.15, 6]))
    assert counts.tolist() == [1, 5]
    with pytest.raises(ArgumentError, match="range: expected two numbers"):
        sym.histogram(x, 4)
    with pytest.raises(ArgumentError, match="bins: expected a number or a symbol, got 'many'"):
        sym.histogram(x, "many")


def test_draws_from_rows_of_probabilities():
    x = sym.Variable("p")
    net = sym.random.multinomial(x, shape=3)
    assert len(net.list_outputs()) == 2
    drawn, likelihood = value(net, p=nd.array([[0, 1], [1, 0]]))
    assert drawn.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert np.abs(likelihood).max() < 1e-6
    assert sorted(value(sym.random.shuffle(x), p=nd.array([3, 1, 2]))[0]) == [1, 2, 3]
    assert value(sym.random.negative_binomial(4, 0.5, shape=(3,)))[0].shape == (3,)
    spread = sym.random.generalized_negative_binomial(sym.Variable("m"), sym.Variable("a"), shape=(2,))
    assert value(spread, m=nd.ones((3,)), a=nd.ones((3,)))[0].shape == (3, 2)


def test_zipfian_candidates():
    candidates, of_classes, of_candidates = sym.contrib.rand_zipfian(sym.Variable("c"), 200, 10)
    net = sym.Group([candidates, of_classes, of_candidates])
    drawn, true, sampled = value(net, c=nd.array([0, 9]))
    assert set(drawn.tolist()) <= set(range(10))
    np.testing.assert_allclose(true, 200 * np.log([2, 11 / 10]) / np.log(11), rtol=1e-6)
    np.testing.assert_allclose(sampled, 200 * np.log((drawn + 2.0) / (drawn + 1)) / np.log(11), rtol=1e-6)
    (drawn,) = value(sym.contrib.rand_zipfian(sym.Variable("c"), 3, 1)[0])
    assert drawn.tolist() == [0, 0, 0], "one class is no mistake"
    with pytest.raises(ArgumentError, match="expected at least 1, got 0 and 10"):
        sym.contrib.rand_zipfian(sym.Variable("c"), 0, 10)
