# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from mx_ndarray import NDArray, nd


def test_numpy_reads_arrays() -> None:
    a = nd.array([[1, 2], [3, 4]])
    assert np.asarray(a).tolist() == [[1, 2], [3, 4]]
    assert np.array(a, dtype=np.int64).dtype == np.int64
    assert np.mean(np.asarray(a)) == 2.5


def test_numpy_operands_meet_arrays() -> None:
    a = nd.array([1, 2, 3])
    for result in (np.ones(3) * a, a * np.ones(3), np.float64(1) * a, np.int32(1) * a):
        assert isinstance(result, NDArray)
        assert result.asnumpy().tolist() == [1, 2, 3]
    assert (np.array([4, 4, 4]) - a).asnumpy().tolist() == [3, 2, 1]


def test_numpy_functions_use_the_operator_of_that_name() -> None:
    a = nd.array([0, 1])
    result = np.sin(a)
    assert isinstance(result, NDArray)
    np.testing.assert_allclose(result.asnumpy(), np.sin([0, 1]), rtol=1e-6)
    assert isinstance(np.absolute(a), NDArray)
    assert np.logaddexp(a, a).shape == (2,)
    assert np.add.reduce(a) == 1


def test_matmul() -> None:
    a = nd.array([[1, 2], [3, 4]])
    assert (a @ nd.eye(2)).asnumpy().tolist() == [[1, 2], [3, 4]]
