# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mx_core.errors import IndexOutOfBoundsError, MXNetError
from mx_ndarray import autograd, indexing, nd

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)


def source(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_basic_reads_agree_with_numpy(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=8))
    expected = source(shape)[key]
    got = nd.array(source(shape))[key]
    assert got.shape == (np.shape(expected) or (1,))
    np.testing.assert_array_equal(got.asnumpy().reshape(np.shape(expected)), expected)


def test_parts_with_gaps_are_recorded() -> None:
    host = source((3, 4, 2))
    for key in (
        (slice(None), slice(1, 3)),
        (slice(None), 2),
        (slice(None, None, -2), ...),
        (1, slice(None), 0),
    ):
        array = nd.array(host)
        array.attach_grad()
        with autograd.record():
            part = array[key] * 2
        part.backward()
        expected = np.zeros_like(host)
        expected[key] = 2
        np.testing.assert_array_equal(part.asnumpy(), host[key] * 2)
        np.testing.assert_array_equal(array.grad.asnumpy(), expected)


def test_numbers_are_written_into_parts_with_gaps_while_recording() -> None:
    array, other = nd.array(source((3, 4))), nd.ones((3, 4))
    other.attach_grad()
    with autograd.record():
        result = other * 3
        array[:, 1:3] = 5
        with pytest.raises(MXNetError, match="part of a computational graph"):
            result[:, 1:3] = 5
    result.backward()
    assert array.asnumpy()[:, 1:3].tolist() == [[5, 5]] * 3
    assert other.grad.asnumpy().tolist() == [[3] * 4] * 3


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_basic_writes_agree_with_numpy(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=8))
    host, array = source(shape), nd.array(source(shape))
    if data.draw(st.booleans()):
        value: Any = -1.0
        host[key] = value
        array[key] = value
    else:
        value = -1 - np.arange(host[key].size, dtype=np.float32).reshape(host[key].shape)
        host[key] = value
        array[key] = nd.array(value) if value.ndim else float(value)
    np.testing.assert_array_equal(array.asnumpy(), host)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_advanced_reads_and_writes_agree_with_numpy(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    key = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3)))
    host, array = source(shape), nd.array(source(shape))
    np.testing.assert_array_equal(array[key].asnumpy(), host[key])
    host[key] = -5
    array[key] = -5
    np.testing.assert_array_equal(array.asnumpy(), host)


def test_contiguous_slices_are_views_and_others_copies() -> None:
    a = nd.array(source((4, 6)))
    for view in (a[1:3], a[1], a[2, 1:3], a[-1:], a.reshape((6, 4))):
        view[:] = -1
    assert (a.asnumpy() == -1).sum() > 0
    b = nd.array(source((4, 6)))
    for copy in (b[:, 1:2], b[::2], b[::-1]):
        copy[:] = -1
    np.testing.assert_array_equal(b.asnumpy(), source((4, 6)))


def test_a_single_element_keeps_one_axis() -> None:
    assert nd.array([1, 2, 3])[1].shape == (1,)
    assert nd.array([[1, 2], [3, 4]])[1, 0].shape == (1,)


def test_index_by_array_takes_along_the_first_axis() -> None:
    a = nd.array(source((4, 2)))
    np.testing.assert_array_equal(a[nd.array([3, 0])].asnumpy(), source((4, 2))[[3, 0]])
    np.testing.assert_array_equal(a[[-1]].asnumpy(), source((4, 2))[[-1]])
    np.testing.assert_array_equal(
        a[nd.array([[0, 1], [2, 3]], dtype="int32")].asnumpy(), source((4, 2))[[[0, 1], [2, 3]]]
    )


def test_masks() -> None:
    a = nd.array(source((2, 3)))
    mask = source((2, 3)) > 2
    np.testing.assert_array_equal(a[mask].asnumpy(), [3, 4, 5])
    a[mask] = 0
    assert a.asnumpy().sum() == 3


@pytest.mark.parametrize("key", [5, -6, (0, 0), ([5],), [5], [[0], [-6]], np.ones(4, bool), "0"])
def test_outside_indices_are_refused(key: Any) -> None:
    a = nd.ones((5,))
    with pytest.raises(IndexOutOfBoundsError):
        a[key]
    with pytest.raises(IndexError):
        a[key] = 0


def test_indices_in_arrays_are_checked_when_they_are_used() -> None:
    for outside in (7, -6):
        with pytest.raises(IndexOutOfBoundsError, match=f"index {outside}"):
            nd.ones((5,))[nd.array([outside])].asnumpy()
        with pytest.raises(IndexOutOfBoundsError, match=f"index {outside}"):
            a = nd.ones((5,))
            a[nd.array([outside])] = 0
            a.asnumpy()
    np.testing.assert_array_equal(nd.array([1, 2, 3])[nd.array([-1, 0])].asnumpy(), [3, 1])


def test_advanced_assignment_does_not_wait(open_gate: threading.Event) -> None:
    late = nd.test_gated(nd.ones((300, 100)))  # too large to run at the call
    late[[1, -1]] = nd.arange(100)
    late[nd.array([2])] = 5
    picked = late[nd.array([2, 1])]
    open_gate.set()
    np.testing.assert_array_equal(picked.asnumpy()[:, :2], [[5, 5], [0, 1]])
    assert late.asnumpy()[-1].sum() == np.arange(100).sum()


def test_gradients_go_through_advanced_assignment() -> None:
    x, base = nd.array([1, 2]), nd.ones((3, 2))
    x.attach_grad()
    base.attach_grad()
    with autograd.record():
        target = base * 2
        kept = target.copy()
        grown = nd.zeros((3, 2))
        grown[[0, 2], [1, 1]] = x * 3
        y = (grown * grown).sum() + kept.sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [18, 36])
    np.testing.assert_array_equal(base.grad.asnumpy(), np.full((3, 2), 2))


def test_slice_assign_methods() -> None:
    a = nd.zeros((3, 4))
    a.slice_assign(nd.array([[1], [2]]), (0, 1), (2, 2), ())
    a.slice_assign_scalar(7, (None, 3), (None, 4), (None, 1))
    np.testing.assert_array_equal(a.asnumpy(), [[0, 1, 0, 7], [0, 2, 0, 7], [0, 0, 0, 7]])
    assert a.slice_assign_scalar(0, (0,), (3,), ()) is a


def test_assigned_values_broadcast_and_convert() -> None:
    a = nd.zeros((2, 3))
    a[:] = [1, 2, 3]
    a[1] = nd.array([[7]], dtype="int32")
    np.testing.assert_array_equal(a.asnumpy(), [[1, 2, 3], [7, 7, 7]])
    a[:, 1] = nd.array([8, 9])
    np.testing.assert_array_equal(a.asnumpy(), [[1, 8, 3], [7, 9, 7]])
    a[1] = [[4, 5, 6]]
    np.testing.assert_array_equal(a.asnumpy(), [[1, 8, 3], [4, 5, 6]])
    with pytest.raises(MXNetError, match=r"\(2, 3\) to \(3,\)"):
        a[1] = np.ones((2, 3))
    with pytest.raises(MXNetError):
        a[:] = nd.ones((4,))


def test_gradients_go_through_indexing() -> None:
    x = nd.array(source((3, 4)))
    x.attach_grad()
    with autograd.record():
        y = (x[1] * 2).sum() + (x[:, 1] * 3).sum() + x[[0, 0]].sum() + x[2, 3]
    y.backward()
    expected = np.zeros((3, 4))
    expected[1] += 2
    expected[:, 1] += 3
    expected[0] += 2
    expected[2, 3] += 1
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_gradients_go_through_assignment() -> None:
    x = nd.array([1, 2])
    x.attach_grad()
    target = nd.zeros((2, 2))
    with autograd.record():
        target[1] = x * 3
        y = (target * target).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [18, 36])


def test_truth_values_index_as_numbers() -> None:
    assert nd.array([5, 6])[True].asnumpy().tolist() == [6]


def test_what_cannot_be_assigned_is_named() -> None:
    for key in (0, [0]):
        with pytest.raises(TypeError, match="cannot assign 'x'"):
            nd.zeros((2, 2))[key] = "x"


def test_one_list_of_integers_takes_rows() -> None:
    values = np.arange(24).reshape(4, 3, 2)
    a = nd.array(values)
    for key in (
        [0, 1],
        [-1, 2],
        np.array([[0, -4], [3, 1]]),
        np.uint8([3]),
        [[0, 1], [2, 3]],
        np.arange(4)[::-2],
    ):
        assert a[key].asnumpy().tolist() == values[key].tolist()
    for key, text in (
        ([4], "index 4 is out of bounds"),
        ([0, -5], "index -5 is"),
        ([[0], [1, 2]], "is no index"),
    ):
        with pytest.raises(IndexError, match=text):
            a[key]


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64, 1e30, -1e30, float("nan")])
def test_no_index_wraps_around(value: float) -> None:
    a = nd.arange(5)
    kind = np.uint64 if isinstance(value, int) else np.float64
    keys: list[Any] = [[value], np.array([[value]]), (slice(0, 2), [value])]
    if value < 2**64:
        keys += [
            np.array([value], kind),
            np.array(value, kind),
            nd.array(np.array([value], kind), dtype=kind),
        ]
    for key in keys if kind is np.uint64 else keys[:2]:
        with pytest.raises(IndexError):
            a[key]
        with pytest.raises(IndexError):
            a[key] = 1
    assert a[np.array([3], np.uint64)].asnumpy().tolist() == [3]
    assert a[nd.array([4, 1], dtype="uint64")].asnumpy().tolist() == [4, 1]
    assert a.asnumpy().tolist() == [0, 1, 2, 3, 4]


def test_everything_of_a_scalar_is_its_element() -> None:
    a = nd.zeros(())
    a[:] = 3
    assert a[:].shape == () and float(a[:].asscalar()) == 3
    a[:] = nd.array([7.0])
    assert float(a.asscalar()) == 7
    with pytest.raises(IndexError):
        a[0:1]


@pytest.mark.parametrize("key", [np.s_[:, 1:3], np.s_[:, 1], np.s_[..., 1:5:2], np.s_[0:2, :, None]])
def test_parts_have_the_same_parameters_whatever_the_extent_of_whole_axes(key: Any) -> None:
    made = []
    for shape in ((3, 7), (5, 7)) if key != np.s_[0:2, :, None] else ((3, 6), (3, 7)):
        region = indexing.resolve(key, shape)
        assert region is not None
        made.append(region.slice_arguments(shape))
    assert made[0] == made[1]
