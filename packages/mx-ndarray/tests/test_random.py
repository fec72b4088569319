# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from mx_core import context
from mx_core.errors import ArgumentError
from mx_ndarray import autograd, nd, random


def test_equal_seeds_give_equal_arrays() -> None:
    random.seed(7)
    first = [random.uniform(shape=(5,)).asnumpy(), random.normal(shape=(5,)).asnumpy()]
    random.seed(7)
    second = [random.uniform(shape=(5,)).asnumpy(), random.normal(shape=(5,)).asnumpy()]
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], random.uniform(shape=(5,)).asnumpy())


def test_the_seed_of_one_context() -> None:
    random.seed(1, ctx=context.cpu(0))
    a = random.uniform(shape=(4,)).asnumpy()
    random.seed(1, ctx=context.cpu(0))
    np.testing.assert_array_equal(a, random.uniform(shape=(4,)).asnumpy())
    with pytest.raises(ArgumentError):
        random.seed("x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="ctx: expected a Context or 'all', got 'cpu'"):
        random.seed(1, ctx="cpu")


def test_moments() -> None:
    random.seed(3)
    u = random.uniform(-1, 3, shape=(20000,)).asnumpy()
    assert -1 <= u.min() and u.max() < 3
    assert abs(u.mean() - 1) < 0.05
    n = random.normal(2, 3, shape=(20000,)).asnumpy()
    assert abs(n.mean() - 2) < 0.1 and abs(n.std() - 3) < 0.1
    i = random.randint(0, 4, shape=(1000,)).asnumpy()
    assert set(i.tolist()) == {0, 1, 2, 3}


def test_shapes_types_and_targets() -> None:
    assert random.uniform().shape == (1,)
    assert random.uniform(shape=3).shape == (3,)
    assert random.randn(2, 3).shape == (2, 3)
    assert random.normal(shape=(2,), dtype="float64").dtype == np.float64
    out = nd.zeros((6,))
    assert random.uniform(out=out) is out
    assert out.asnumpy().any()
    with pytest.raises(ArgumentError, match="all numbers or all arrays"):
        random.uniform(nd.zeros((2,)), 3)


@pytest.mark.parametrize("scale", [-3, 0, 0.0, float("nan"), float("inf")])
def test_a_mean_that_is_not_above_zero_is_named(scale: float) -> None:
    with pytest.raises(ArgumentError, match=rf"scale: expected a finite number above 0, got {scale}$"):
        random.exponential(scale)


def test_means_in_an_array_that_are_not_above_zero_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"got -0.25 = 1 / -4\n"):
        random.exponential(nd.array([2.0, -4.0])).asnumpy()


def test_probabilities_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="probabilities ≥ 0, got -1 in row 1"):
        random.multinomial(nd.array([[1.0, 2.0], [2.0, -1.0]])).asnumpy()
    with pytest.raises(ArgumentError, match="sum > 0 of probabilities in row 0"):
        random.multinomial(nd.zeros((3,))).asnumpy()


def test_the_same_functions_under_nd() -> None:
    assert nd.random.uniform is random.uniform
    assert sorted(nd.random.shuffle(nd.arange(5)).asnumpy().tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (-(2**31) - 1, 0), (0, 2**31 + 1)])
def test_integers_must_be_in_the_range_of_their_type(low: int, high: int) -> None:
    with pytest.raises(ArgumentError, match=rf"\[{low}, {high}\) is not within the range of int32"):
        random.randint(low, high, shape=(4,))
    drawn = random.randint(low, high, shape=(100,), dtype="int64").asnumpy()
    assert (low <= drawn).all() and (drawn < high).all()


def test_integers_of_the_whole_range() -> None:
    drawn = random.randint(-(2**31), 2**31, shape=(1000,)).asnumpy()
    assert drawn.min() < -(2**30) and drawn.max() > 2**30


@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (0,)])
@pytest.mark.parametrize("rows", [(), (2,), (2, 3)])
def test_log_probabilities_of_samples_have_a_gradient(rows: tuple[int, ...], shape: tuple[int, ...]) -> None:
    data = nd.random.uniform(0.1, 1, shape=(*rows, 5))
    data.attach_grad()
    with autograd.record():
        drawn, logs = nd.random.multinomial(data, shape=shape or 1, get_prob=True, dtype="int32")
        loss = (logs * nd.arange(1, logs.size + 1).reshape(logs.shape)).sum() if logs.size else data.sum() * 0
    loss.backward()
    p = data.asnumpy().reshape(-1, 5)
    expected = np.zeros_like(p)
    heads = np.arange(1, logs.size + 1).reshape(len(p), -1)
    for i, each in enumerate(drawn.asnumpy().reshape(len(p), -1)):
        np.add.at(expected[i], each, heads[i] / p[i, each])
    np.testing.assert_allclose(data.grad.asnumpy().reshape(p.shape), expected, rtol=1e-5)
    with autograd.record():
        samples = nd.random.multinomial(data, shape=3, dtype="float32")
    samples.backward()
    assert (data.grad.asnumpy() == 0).all()
