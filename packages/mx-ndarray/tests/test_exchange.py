# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mx_core.errors import OutOfMemoryError, ShapeError
from mx_ndarray import NDArray, autograd, nd


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


def test_stacks_of_matrices_multiply_as_in_numpy() -> None:
    rng = np.random.default_rng(0)
    shapes = [((4, 2, 3), (4, 3, 2)), ((2, 3), (4, 3, 2)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 2)),
              ((5, 2, 3), (3,)), ((2, 0, 3), (3, 4)), ((2, 3, 0), (1, 0, 4))]  # fmt: skip
    for left, right in shapes:
        a, b = rng.normal(size=left).astype("f"), rng.normal(size=right).astype("f")
        for result in (
            nd.array(a) @ nd.array(b),
            nd.array(a) @ b,
            a @ nd.array(b),
            np.matmul(nd.array(a), b),
        ):
            assert isinstance(result, NDArray)
            np.testing.assert_allclose(result.asnumpy(), a @ b, rtol=1e-5)
    for left, right in (((2, 2, 3), (2, 2, 3)), ((2, 2, 3), (3, 3, 2)), ((), (2,))):
        with pytest.raises(ShapeError, match=r"\[matmul\]"):
            nd.zeros(left) @ nd.zeros(right)
    with pytest.raises(TypeError, match="unsupported operand"):
        nd.zeros((2, 2)) @ 2


def test_stacked_products_have_gradients() -> None:
    x = nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    with autograd.record():
        y = (nd.ones((3, 2, 2)) @ x).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[6, 6], [6, 6]]


def test_functions_of_numpy() -> None:
    a = nd.array([[1, 5], [3, 2]])
    for result in (
        np.mean(a, axis=0),
        np.sum(a, axis=0),
        np.reshape(a, (4,)),
        np.maximum(a, np.ones((2, 2))),
    ):
        assert isinstance(result, NDArray)
    assert np.mean(a, axis=0).asnumpy().tolist() == [2, 3.5]
    assert np.mean(a, dtype="float64") == 2.75
    assert np.argsort(a, axis=1).tolist() == [[0, 1], [1, 0]]
    assert np.round(a / 3, 1).tolist() == np.round(a.asnumpy() / np.float32(3), 1).tolist()
    assert np.concatenate([a, a]).shape == (4, 2)
    assert np.where(a > 2, a, 0).tolist() == [[0, 5], [3, 0]]
    if np.lib.NumpyVersion(np.__version__) >= "2.3.0":  # before, NumPy wants types to be its own
        assert np.result_type(a) == np.float32
    assert float(np.linalg.norm(a)) == pytest.approx(39**0.5)


def test_results_of_numpy_go_into_an_array() -> None:
    a, b = nd.array([1, 2]), nd.zeros((2,), dtype="int32")
    assert np.add(a, 1, out=b) is b
    assert b.asnumpy().tolist() == [2, 3]
    assert np.add(np.ones(2), 5, out=b) is b
    assert b.asnumpy().tolist() == [6, 6]
    whole = np.ones(2)
    whole += a
    assert whole.tolist() == [2, 3]


def test_a_copy_is_not_changed_in_place_of_the_array() -> None:
    with pytest.raises(TypeError, match=r"add\.at"):
        np.add.at(nd.ones((3,)), [0], 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_functions_that_write_their_argument_write_the_array(dtype: str) -> None:
    x = nd.zeros((3,), dtype=dtype)
    mask = np.array([True, False, True])
    np.copyto(x, nd.ones((3,), dtype=dtype))
    np.testing.assert_array_equal(x.asnumpy(), [1, 1, 1])
    np.copyto(dst=x, src=np.array([4, 5, 6], dtype), where=mask)
    np.testing.assert_array_equal(x.asnumpy(), [4, 1, 6])
    np.put(x, nd.array([0]).astype("int32"), 5)
    np.testing.assert_array_equal(x.asnumpy(), [5, 1, 6])
    np.place(x, mask, [7, 8])
    np.testing.assert_array_equal(x.asnumpy(), [7, 1, 8])
    np.putmask(x, x.asnumpy() > 7, 9)
    np.testing.assert_array_equal(x.asnumpy(), [7, 1, 9])
    np.put_along_axis(x, np.array([1]), 3, 0)
    np.testing.assert_array_equal(x.asnumpy(), [7, 3, 9])
    square = nd.zeros((2, 2), dtype=dtype)
    np.fill_diagonal(square, 2)
    np.testing.assert_array_equal(square.asnumpy(), [[2, 0], [0, 2]])


def test_functions_write_through_to_out() -> None:
    x = nd.zeros((3,))
    assert np.take(np.arange(5.0), [1, 2, 3], out=x, mode="clip") is x
    np.testing.assert_array_equal(x.asnumpy(), [1, 2, 3])
    np.concatenate([np.zeros(2, "f4"), nd.ones((1,))], out=x)
    np.testing.assert_array_equal(x.asnumpy(), [0, 0, 1])
    x[0] = np.nan
    np.nan_to_num(x, copy=False)
    np.testing.assert_array_equal(x.asnumpy(), [0, 0, 1])


def test_a_numpy_array_is_written_from_an_ndarray() -> None:
    target = np.zeros(3)
    np.copyto(target, nd.ones((3,)))
    np.testing.assert_array_equal(target, 1)


def test_a_failure_is_raised_before_a_copy_is_made_for_numpy() -> None:
    huge = nd.zeros((1 << 44,))
    with pytest.raises(OutOfMemoryError, match="70368744177664 bytes"):
        huge.asnumpy()
    assert isinstance(huge.error, OutOfMemoryError)


NO_MEMORY = """
import resource
from mx_core.errors import OutOfMemoryError
from mx_ndarray import nd
x = nd.ones((64 << 20,), dtype="float32")
x.wait_to_read()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
try:
    x.asnumpy()
except OutOfMemoryError as error:
    print(error)
assert x[:3].asnumpy().sum() == 3
"""


def test_no_memory_for_a_copy_is_an_error_of_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "[asnumpy]" in done.stdout and "268435456 bytes" in done.stdout
