# SPDX-License-Identifier: Apache-2.0
"""The native part of calls: which arrays it takes, and what it refuses."""

from __future__ import annotations

import sys
import weakref

import pytest

from mx_core.errors import IndexOutOfBoundsError
from mx_ndarray import NDArray, autograd, nd
from mx_symbol import CachedOp, sym
from mx_symbol.runtime.signature import Signature


def made(recorded: bool = False) -> tuple[Signature, NDArray, NDArray]:
    a, b = nd.array([1, 2]), nd.array([3, 4])
    op = CachedOp(sym.exp(sym.exp(sym.var("a")) * sym.var("b")))
    if recorded:
        a.attach_grad()
        with autograd.record():
            op(a, b)
    else:
        op(a, b)
    signature: Signature = op._last[1]
    return signature, a, b


def test_too_few_arrays_and_what_is_none_are_refused() -> None:
    signature, a, _ = made()
    before = sys.getrefcount(a)
    with pytest.raises(IndexOutOfBoundsError, match="a call has no array 1"):
        signature.forward((a,), None)
    with pytest.raises(TypeError, match="expected an NDArray, got int"):
        signature.forward((a, 3), None)
    assert sys.getrefcount(a) == before


def test_gradients_go_to_targets_and_head_gradients_may_be_a_tuple() -> None:
    signature, a, b = made(recorded=True)
    arrays, (result,) = signature.forward((a, b), None)
    target = nd.zeros((2,))
    gradients = signature.backward(arrays, (nd.ones((2,)),), (target, None))
    assert gradients[0] is target and gradients[1] is None
    inner = b * nd.exp(a)
    assert (abs(target / (nd.exp(inner) * inner) - 1) < 1e-5).asnumpy().all()
    assert (abs(result / nd.exp(inner) - 1) < 1e-5).asnumpy().all()
    with pytest.raises(IndexOutOfBoundsError, match="a call has no array 0"):
        signature.backward(arrays, (), (target, None))


def test_what_a_call_was_given_is_let_go_when_it_has_run() -> None:
    signature, a, b = made()
    given = nd.array([5, 6])
    gone = weakref.ref(given)
    (result,) = signature.forward((given, b), None)[1]
    memory = weakref.ref(result)
    result.wait_to_read()
    del given, result
    assert gone() is None and memory() is None
    (again,) = signature.forward((a, b), None)[1]
    assert (abs(again / nd.exp(b * nd.exp(a)) - 1) < 1e-5).asnumpy().all()
