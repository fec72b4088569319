# SPDX-License-Identifier: Apache-2.0
"""Arrays that get their memory when a program runs: what is read before it is written is zero."""

import numpy as np
import pytest

from mx_core.context import cpu
from mx_ndarray import nd
from mx_symbol import CachedOp, sym

SIZES = [1000, 300_000]


@pytest.fixture(autouse=True)
def _memory_that_was_used(request):
    for _ in range(3):  # pools hand it out again
        held = [nd.full(count * size, 7) for size in SIZES for count in (1, 2)]
        nd.waitall()
        del held
        nd.waitall()


@pytest.mark.parametrize("size", SIZES)
def test_an_input_that_nobody_wrote_is_zero(size):
    result = CachedOp(sym.Variable("a") + 1)(nd.empty(size))
    assert (result.asnumpy() == 1).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("req", "total"), [("write", 2), ("add", 4)])
def test_gradients_are_added_to_zero(size, req, total):
    a, grad = nd.ones(size), nd.empty(size)
    executor = (sym.Variable("a") * 2).bind(cpu(), args={"a": a}, args_grad={"a": grad}, grad_req=req)
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(nd.ones(size))
    assert (grad.asnumpy() == total).all()


@pytest.mark.parametrize("size", SIZES)
def test_the_rest_of_an_array_stays_zero(size):
    whole = nd.empty(2 * size)
    executor = (sym.Variable("a") * 2).bind(cpu(), args={"a": nd.ones(size)}, args_grad={"a": whole[:size]})
    executor.forward(is_train=True)
    executor.backward(nd.ones(size))
    np.testing.assert_array_equal(whole.asnumpy(), np.repeat([2, 0], size))
