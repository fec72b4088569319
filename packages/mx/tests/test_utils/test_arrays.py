# SPDX-License-Identifier: Apache-2.0
"""Random arrays and shapes have the extents, types and bounds that are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import mx
from mx import test_utils as utils


def test_random_arrays() -> None:
    assert utils.random_arrays((2, 3)).dtype == np.float32
    assert [x.shape for x in utils.random_arrays((), (2,))] == [(), (2,)]
    low, high = utils.random_uniform_arrays((500,), (500,), low=2, high=3, dtype="float64")
    assert low.dtype == high.dtype == np.float64 and 2 <= low.min() < 2.1 < 2.9 < high.max() < 3
    (unit,) = utils.random_uniform_arrays((500,))
    assert unit.dtype == np.float32 and 0 <= unit.min() < 0.1 < 0.9 < unit.max() < 1
    assert utils.random_sample("abcdef", 6) == list("abcdef")
    chosen = utils.random_sample(range(100), 5)
    assert len(set(chosen)) == 5 and chosen == sorted(chosen)


def test_random_shapes() -> None:
    many = [utils.rand_shape_nd(3, 4) for _ in range(200)]
    assert {n for shape in many for n in shape} == {1, 2, 3, 4} and {len(shape) for shape in many} == {3}
    assert 0 in utils.rand_shape_nd(200, 3, allow_zero_size=True)
    assert {n for _ in range(400) for n in utils.rand_shape_nd(2)} == set(range(1, 11))
    for make, count in ((utils.rand_shape_2d, 2), (utils.rand_shape_3d, 3)):
        for axis in range(count):
            assert {make()[axis] for _ in range(600)} == set(range(1, 11))
            extents = [2, 3, 4][:count]
            assert {make(*extents)[axis] for _ in range(200)} == set(range(1, extents[axis] + 1))
            assert {make(*extents, allow_zero_size=True)[axis] for _ in range(200)} == set(
                range(extents[axis] + 1)
            )
    points = [utils.rand_coord_2d(1, 3, 7, 9) for _ in range(100)]
    assert {x for x, _ in points} == {1, 2} and {y for _, y in points} == {7, 8}


def test_random_ndarrays() -> None:
    assert utils.rand_ndarray((2, 2), dtype="float64", modifier_func=abs).asnumpy().min() >= 0
    assert utils.rand_ndarray((2, 2)).dtype == np.float32
    assert utils.rand_ndarray((2, 2), dtype="float64").dtype == np.float64
    assert utils.rand_ndarray((1,), ctx=mx.cpu(1)).context == mx.cpu(1)
    with pytest.raises(ValueError, match="stype"):
        utils.rand_ndarray((2, 2), "csr")


def test_functions_of_elements() -> None:
    x = np.array([[1.0, 2], [3, 4]])
    np.testing.assert_array_equal(utils.assign_each(x, lambda v: v * 2), 2 * x)
    np.testing.assert_array_equal(utils.assign_each(mx.nd.array(x), None), x)
    np.testing.assert_array_equal(utils.assign_each2(x, x + 1, lambda a, b: a * b), x * (x + 1))
    np.testing.assert_array_equal(utils.assign_each2(x, x + 1, None), x)


def test_one_memory() -> None:
    x = mx.nd.array([1.0, 2, 3, 4])
    assert utils.same_array(x, x[:]) and not utils.same_array(x, x.copy())
    assert not utils.same_array(x, x[:2]) and not utils.same_array(x, x + 1)
    np.testing.assert_array_equal(x.asnumpy(), [1, 2, 3, 4])


def test_reductions() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (None, 0, -1, (0, 2), (2, 0), (1, -1)):
        for keepdims in (True, False):
            expected = x.sum(axis=axis, keepdims=keepdims)
            found = utils.np_reduce(x, axis, keepdims, np.sum)
            assert np.shape(found) == expected.shape
            np.testing.assert_array_equal(found, expected)
    for shape in ((3, 4), (4,), (1, 4), (2, 1, 4), (1,), ()):
        total = utils.collapse_sum_like(x, shape)
        assert total.shape == shape and total.sum() == x.sum()
        np.testing.assert_array_equal(
            np.broadcast_to(total, x.shape), np.broadcast_to(_summed(x, shape), x.shape)
        )
    for wrong in ((2,), (1, 2, 3, 4), (3, 3, 4)):
        with pytest.raises(ValueError, match="does not broadcast"):
            utils.collapse_sum_like(x, wrong)


def _summed(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    wide = (1,) * (x.ndim - len(shape)) + shape
    for axis, extent in enumerate(wide):
        if extent == 1:
            x = x.sum(axis=axis, keepdims=True)
    return x.reshape(shape)


def test_known_arrays() -> None:
    vector = utils.create_vector(4)
    assert vector.dtype == np.int64 and vector.asnumpy().tolist() == [0, 1, 2, 3]
    assert utils.create_2d_tensor(2, 3).asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]
    assert utils.create_2d_tensor(2, 3, "float32").dtype == np.float32
    np.testing.assert_array_equal(utils.get_identity_mat(3), np.eye(3))
    np.testing.assert_array_equal(utils.get_identity_mat_batch(2), [np.eye(2), np.eye(2)])
