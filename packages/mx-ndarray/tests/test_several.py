# SPDX-License-Identifier: Apache-2.0
"""What is asked of several arrays at once."""

import itertools

import pytest

from mx_core.context import Context, cpu
from mx_ndarray import autograd, nd
from mx_ndarray.several import (
    are_alike,
    common_context,
    first_stale,
    is_current_context,
    make_stale,
    signature_key,
)


def leaf(shape=(2,)):
    made = nd.ones(shape)
    made.attach_grad()
    return made


def test_keys_differ_where_programs_do():
    def keys():
        a, b, learned = nd.ones((2, 3)), nd.ones((2, 3)), leaf((2, 3))
        yield signature_key((a, b))
        yield signature_key((a, b, b))
        yield signature_key((a, nd.ones((3, 2))))
        yield signature_key((a, nd.ones((6,))))
        yield signature_key((a, nd.ones((2, 3), dtype="float64")))
        yield signature_key((nd.ones((2, 3), ctx=Context("cpu", 1)), a))
        with autograd.train_mode():
            yield signature_key((a, b))
        with autograd.record():
            yield signature_key((a, learned))
            yield signature_key((learned, a))
            yield signature_key((a, b))
        with autograd.record(train_mode=False):
            yield signature_key((a, learned))

    made = list(keys())
    in_training_unrecorded = (made[6], made[9])
    assert in_training_unrecorded[0] == in_training_unrecorded[1]
    del made[9]
    assert len(set(made)) == len(made)
    assert [key[0] & 1 for key in made] == [0] * 7 + [1, 1, 1]
    assert made[0] == signature_key((nd.zeros((2, 3)), leaf((2, 3))))


def test_without_arrays_the_context_of_the_thread_counts():
    with Context("cpu", 1):
        other = signature_key(())
    assert other != signature_key(())


def test_shapes_that_operators_decide_are_waited_for():
    rows = nd.contrib.boolean_mask(nd.array([[1.0], [2.0], [3.0]]), nd.array([1, 0, 1]))
    assert signature_key((rows,)) == signature_key((nd.zeros((2, 1)),))


@pytest.mark.parametrize("function", [signature_key, are_alike, first_stale, make_stale])
def test_what_is_no_array_is_named(function):
    with pytest.raises(TypeError, match="expected an NDArray, got int"):
        function((3, nd.ones((1,))))


def test_contexts():
    a, b, other = nd.ones((1,)), nd.ones((2,)), nd.ones((1,), ctx=Context("cpu", 1))
    assert common_context((a, b)) == cpu()
    assert common_context([other]) == Context("cpu", 1)
    for mixed in ((), (a, other), (a, 3), ("a", a), ([a],)):
        assert common_context(mixed) is None
    assert is_current_context(cpu())
    assert not is_current_context(Context("cpu", 1))
    with Context("cpu", 1):
        assert is_current_context(Context("cpu", 1))


def test_alike():
    a, b = nd.ones((1,)), nd.ones((2, 2))
    others = nd.ones((1,), dtype="int32"), nd.ones((1,), ctx=Context("cpu", 1))
    assert are_alike([a, b])
    assert not any(are_alike(pair) for other in others for pair in itertools.permutations((a, other)))


def test_gradients_are_stale_until_backward():
    leaves = [leaf(), leaf(), leaf()]
    assert first_stale(leaves) == 0
    with autograd.record():
        total = leaves[0] * leaves[1]
    total.backward()
    assert first_stale(leaves) == 2
    assert first_stale(leaves[:2]) == -1
    make_stale(leaves[:1])
    assert first_stale(leaves) == 0
    assert leaves[1]._fresh_grad
    assert first_stale([nd.ones((1,))]) == 0
