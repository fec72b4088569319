# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import autograd, nd


def test_foreach_stacks_outputs_and_hands_states_on() -> None:
    data = nd.array([[1, 2], [3, 4]])
    outputs, state = nd.contrib.foreach(lambda d, s: (d * 2 + s, s + 1), data, nd.zeros((2,)))
    assert outputs.asnumpy().tolist() == [[2, 4], [7, 9]] and state.asnumpy().tolist() == [2, 2]
    pair = [data, nd.ones((2, 3))]
    outputs, states = nd.contrib.foreach(lambda d, s: ([d[0], d[1]], [s[0] + d[0]]), pair, [nd.zeros((2,))])
    assert [x.shape for x in outputs] == [(2, 2), (2, 3)] and states[0].asnumpy().tolist() == [4, 6]
    with pytest.raises(ArgumentError, match="one length"):
        nd.contrib.foreach(lambda d, s: (d, s), [nd.ones((2,)), nd.ones((3,))], [])


def test_gradients_go_through_loops() -> None:
    x = nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    with autograd.record():
        outputs, state = nd.contrib.foreach(lambda d, s: (d * d, s + d), x, nd.zeros((2,)))
        total = outputs.sum() + (state * 3).sum()
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * x.asnumpy() + 3)


def test_while_loop_fills_its_outputs_up() -> None:
    def step(i: Any, t: Any) -> Any:
        return [i * 10], (i + 1, t + i)

    start = (nd.array([0]), nd.array([1]))
    outputs, state = nd.contrib.while_loop(lambda i, t: i < 3, step, start, max_iterations=5)
    assert outputs[0].asnumpy().tolist() == [[0], [10], [20], [0], [0]]
    assert [s.asscalar() for s in state] == [3, 4]
    outputs, _ = nd.contrib.while_loop(lambda i, t: i < 9, step, start, max_iterations=2)
    assert outputs[0].shape == (2, 1)
    alone, _ = nd.contrib.while_loop(
        lambda i, t: i < 3, lambda i, t: (i, (i + 1, t)), start, max_iterations=4
    )
    assert alone.asnumpy().tolist() == [[0], [1], [2], [0]]
    assert nd.contrib.while_loop(lambda i, t: i < 0, step, start, max_iterations=2)[0] == []
    with pytest.raises(ArgumentError, match="max_iterations"):
        nd.contrib.while_loop(lambda i, t: i < 3, step, start)
    with pytest.raises(ArgumentError, match="2 loop variables"):
        nd.contrib.while_loop(lambda i, t: i < 3, lambda i, t: (i, [i]), start, max_iterations=2)


def test_cond() -> None:
    for value, expected in ((1, 1), (0, 0)):
        chosen = nd.contrib.cond(nd.array([value]), lambda: nd.ones((1,)), lambda: nd.zeros((1,)))
        assert chosen.asscalar() == expected


def test_kinds_of_numbers() -> None:
    x = nd.array([1, np.nan, np.inf, -np.inf])
    assert nd.contrib.isnan(x).asnumpy().tolist() == [0, 1, 0, 0]
    assert nd.contrib.isinf(x).asnumpy().tolist() == [0, 0, 1, 1]
    assert nd.contrib.isfinite(x).asnumpy().tolist() == [1, 0, 0, 0]
    assert {"foreach", "isnan"} <= set(dir(nd.contrib))


def test_a_single_loop_variable_comes_back_alone() -> None:
    outputs, i = nd.contrib.while_loop(
        lambda i: i < 3, lambda i: (i, i + 1), nd.zeros((1,)), max_iterations=4
    )
    assert outputs.shape == (4, 1)
    assert i.asscalar() == 3
