# SPDX-License-Identifier: Apache-2.0
"""Where the gradients of a recorded CachedOp go: into the arrays of leaves at once, unless something else reads them."""

import numpy as np
import pytest

from mx_ndarray import autograd, nd
from mx_symbol import CachedOp, sym

A, B = sym.Variable("a"), sym.Variable("b")
PRODUCT = A * B


def leaf(*values, req="write"):
    array = nd.array(values)
    array.attach_grad(req)
    return array


def recorded(function):
    with autograd.record():
        return function()


def test_a_leaf_gets_its_gradient_without_another_array():
    op = CachedOp(PRODUCT)
    a, b = leaf(2, 3), leaf(5, 7)
    grad = a.grad
    recorded(lambda: op(a, b)).backward()
    assert grad.asnumpy().tolist() == [5, 7]
    assert b.grad.asnumpy().tolist() == [2, 3]


@pytest.mark.parametrize("place", [0, 1])
def test_a_gradient_that_the_call_reads_is_not_overwritten_before(place):
    """The array of the gradient is an input of the same call."""
    op = CachedOp(sym.exp(PRODUCT) + A)
    a = leaf(2.0)
    a.grad[:] = 0.5
    arrays = [a, a.grad] if place == 0 else [a.grad, a]
    recorded(lambda: op(*arrays)).backward()
    expected = 0.5 * np.exp(1.0) + (place == 0)
    np.testing.assert_allclose(a.grad.asnumpy(), [expected], rtol=1e-6)


def test_a_gradient_may_be_the_gradient_of_the_output():
    op = CachedOp(PRODUCT * PRODUCT)
    a, b = leaf(1, 2, 3), leaf(4, 5, 6)
    a.grad[:] = 10
    recorded(lambda: op(a, b)).backward(a.grad)
    assert b.grad.asnumpy().tolist() == [80, 400, 1080]
    assert a.grad.asnumpy().tolist() == [320, 1000, 2160]


def test_a_leaf_that_enters_twice_gets_the_sum():
    op = CachedOp(PRODUCT)
    a, b = leaf(2, 3), leaf(1, 1)
    recorded(lambda: op(a, a)).backward()
    assert a.grad.asnumpy().tolist() == [4, 6]
    recorded(lambda: op(a, b) + op(b, a) * 2).backward()
    assert a.grad.asnumpy().tolist() == [3, 3]
    assert b.grad.asnumpy().tolist() == [6, 9]


def test_gradients_are_added_where_that_was_asked():
    op = CachedOp(PRODUCT)
    a, b = leaf(2, 3, req="add"), leaf(5, 7, req="null")
    for times in (1, 2, 3):
        recorded(lambda: op(a, b)).backward()
        assert a.grad.asnumpy().tolist() == [5 * times, 7 * times]


def test_gradients_that_are_returned_are_new_arrays():
    op = CachedOp(PRODUCT)
    a, b = leaf(2, 3), leaf(5, 7)
    a.grad[:] = 1
    (found,) = autograd.grad(recorded(lambda: op(a, b)), [a])
    assert found.asnumpy().tolist() == [5, 7]
    assert a.grad.asnumpy().tolist() == [1, 1]


def test_what_flows_through_two_calls_is_not_changed_by_the_first():
    """Two calls read the gradient of one array, which neither may write."""
    op = CachedOp(PRODUCT)
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)

    def both():
        y = a * 4
        return op(op(y, b), c) + op(y, c)

    recorded(both).backward(nd.array([2.0]))
    assert a.grad.asnumpy().tolist() == [2 * 4 * (3 * 5 + 5)]
    assert b.grad.asnumpy().tolist() == [2 * 8 * 5]
    assert c.grad.asnumpy().tolist() == [2 * (24 + 8)]


def test_views_of_one_buffer_are_gradients():
    op = CachedOp(PRODUCT)
    a, b, buffer = nd.array([2.0, 3.0]), nd.array([5.0, 7.0]), nd.zeros((4,))
    autograd.mark_variables([a, b], [buffer[:2], buffer[2:]])
    recorded(lambda: op(a, b)).backward()
    assert buffer.asnumpy().tolist() == [5, 7, 2, 3]
