# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import mx_ndarray
from mx_core import context
from mx_core.errors import (
    ArgumentError,
    DTypeError,
    MXNetError,
    MXUnsafeReadWarning,
    ShapeError,
)
from mx_ndarray import NDArray, autograd, nd


def test_repr_shows_values_shape_and_context() -> None:
    assert repr(nd.zeros((1, 2))) == "\n[[0. 0.]]\n<NDArray 1x2 @cpu(0)>"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda a, b: a + b, [5, 7, 9]),
        (lambda a, b: a - b, [-3, -3, -3]),
        (lambda a, b: a * b, [4, 10, 18]),
        (lambda a, b: a / b, [0.25, 0.4, 0.5]),
        (lambda a, b: b % a, [0, 1, 0]),
        (lambda a, b: a**b, [1, 32, 729]),
        (lambda a, b: a + 1, [2, 3, 4]),
        (lambda a, b: 1 + a, [2, 3, 4]),
        (lambda a, b: 1 - a, [0, -1, -2]),
        (lambda a, b: 6 / a, [6, 3, 2]),
        (lambda a, b: 7 % b, [3, 2, 1]),
        (lambda a, b: 2**a, [2, 4, 8]),
        (lambda a, b: -a, [-1, -2, -3]),
        (lambda a, b: abs(-a), [1, 2, 3]),
        (lambda a, b: a == 2, [0, 1, 0]),
        (lambda a, b: a != 2, [1, 0, 1]),
        (lambda a, b: a < 2, [1, 0, 0]),
        (lambda a, b: 2 < a, [0, 0, 1]),
        (lambda a, b: a <= nd.array([2, 2, 2]), [1, 1, 0]),
        (lambda a, b: a >= 2, [0, 1, 1]),
    ],
)
def test_operators_of_python(expression: object, expected: list[float]) -> None:
    a, b = nd.array([1, 2, 3]), nd.array([4, 5, 6])
    result = expression(a, b)  # type: ignore[operator]
    assert isinstance(result, NDArray)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.asnumpy(), expected)


def test_arithmetic_broadcasts() -> None:
    a = nd.array([[1], [2]])
    b = nd.array([10, 20, 30])
    np.testing.assert_array_equal((a + b).asnumpy(), [[11, 21, 31], [12, 22, 32]])


def test_shapes_that_do_not_broadcast_are_refused_with_both() -> None:
    with pytest.raises(ShapeError, match=r"\[2,3\] \[4\]"):
        nd.ones((2, 3)) + nd.ones((4,))


def test_types_are_not_promoted() -> None:
    with pytest.raises(DTypeError, match=r"int32.*float32|float32.*int32"):
        nd.ones((2,), dtype="int32") + nd.ones((2,))


def test_a_number_keeps_the_array_type_and_truncates() -> None:
    a = nd.ones((2,), dtype="int32")
    assert (a * 1.5).dtype == np.int32
    np.testing.assert_array_equal((a * 1.5).asnumpy(), [1, 1])


def test_numpy_scalars_and_arrays_are_operands() -> None:
    a = nd.array([1, 2])
    np.testing.assert_array_equal((a * np.float64(2)).asnumpy(), [2, 4])
    np.testing.assert_array_equal((a + np.array([1, 1])).asnumpy(), [2, 3])
    with pytest.raises(TypeError):
        a + "text"  # type: ignore[operator]


def test_comparison_with_something_else_is_false() -> None:
    assert (nd.ones((2,)) == None) is False  # type: ignore[comparison-overlap]  # noqa: E711


def test_in_place_operators_keep_the_object_and_views_see_them() -> None:
    a = nd.array([[1, 2], [3, 4]])
    first, same = a[0], a
    a += 1
    a *= a
    assert a is same
    np.testing.assert_array_equal(a.asnumpy(), [[4, 9], [16, 25]])
    np.testing.assert_array_equal(first.asnumpy(), [4, 9])


def test_in_place_result_must_fit() -> None:
    a = nd.ones((3,))
    with pytest.raises(ShapeError):
        a += nd.ones((2, 3))


def test_in_place_where_the_kernel_cannot_work_in_place() -> None:
    a = nd.array([1, 2, 3])
    nd.test_reversed(a, out=a)
    np.testing.assert_array_equal(a.asnumpy(), [3, 2, 1])


def test_overlapping_views_as_input_and_output() -> None:
    a = nd.array([1, 2, 3, 4])
    nd.test_reversed(a[0:3], out=a[1:4])
    np.testing.assert_array_equal(a.asnumpy(), [1, 3, 2, 1])


def test_truth_value() -> None:
    assert bool(nd.array([1]))
    assert not nd.zeros((1, 1))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(nd.ones((2,)))


def test_conversion_to_python_numbers() -> None:
    a = nd.array([2.5])
    assert (float(a), int(a), a.asscalar()) == (2.5, 2, 2.5)
    assert isinstance(a.asscalar(), np.float32)
    assert [10, 20, 30][nd.array([1], dtype="int32")] == 20
    with pytest.raises(TypeError):
        [1][nd.array([0.0])]  # type: ignore[call-overload]
    with pytest.raises(ArgumentError):
        nd.ones((2,)).asscalar()


def test_len_iteration_and_attributes() -> None:
    a = nd.array([[1, 2, 3], [4, 5, 6]], dtype="int64")
    assert (len(a), a.size, a.ndim, a.shape, a.dtype, a.stype) == (2, 6, 2, (2, 3), np.int64, "default")
    assert a.context == context.cpu(0) == a.ctx
    assert [row.asnumpy().tolist() for row in a] == [[1, 2, 3], [4, 5, 6]]
    assert a.T.shape == (3, 2)


def test_hash_is_identity() -> None:
    a, b = nd.ones((1,)), nd.ones((1,))
    assert len({a, b, a}) == 2


def test_astype_and_copy() -> None:
    a = nd.array([1.7, -1.7])
    b = a.astype("int32")
    np.testing.assert_array_equal(b.asnumpy(), [1, -1])
    assert a.astype("float32", copy=False) is a
    c = a.copy()
    c[:] = 0
    np.testing.assert_allclose(a.asnumpy(), [1.7, -1.7], rtol=1e-6)
    assert copy.deepcopy(a).handle != a.handle


def test_pickle_keeps_type_shape_and_values() -> None:
    for dtype in ("float32", "float16", "bfloat16", "int8", "bool"):
        a = nd.array([[1, 0], [1, 1]], dtype=dtype)
        b = pickle.loads(pickle.dumps(a))
        assert b.dtype == a.dtype
        np.testing.assert_array_equal(b.asnumpy(), a.asnumpy())


def test_methods_are_operators() -> None:
    a = nd.array([[1, -2], [3, 4]])
    assert a.sum().asscalar() == 6
    np.testing.assert_array_equal(a.abs().asnumpy(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(a.clip(0, 3).asnumpy(), [[1, 0], [3, 3]])
    with pytest.raises(AttributeError):
        a.no_such_method()


def test_work_is_asynchronous(open_gate: threading.Event) -> None:
    a = nd.ones((1000, 100))  # too large to be computed by the pushing thread
    b = nd.test_gated(a) + 1
    assert b.shape == (1000, 100)
    open_gate.set()
    assert b.asnumpy().min() == 2


@pytest.mark.timeout(30)
def test_writes_wait_for_readers(open_gate: threading.Event) -> None:
    a = nd.ones((1000, 100))
    b = nd.test_gated(a)
    a[:] = 7
    open_gate.set()
    assert b.asnumpy().max() == 1
    assert a.asnumpy().min() == 7


def test_a_failure_is_raised_where_the_result_is_read() -> None:
    b = nd.test_fails(nd.ones((2,)))
    c = b + 1
    error = c.error  # who holds it keeps its traceback, whenever the collector runs
    assert isinstance(error, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError, match="computed by test_fails") as caught:
        c.asnumpy()
    assert any("test_fails" in note and "test_ndarray.py" in note for note in caught.value.__notes__)
    assert "reference" in "".join(str(entry) for entry in caught.traceback)


def test_a_second_read_warns_and_keeps_the_error() -> None:
    b = nd.test_fails(nd.ones((2,)))
    with pytest.raises(ZeroDivisionError):
        b.wait_to_read()
    with pytest.warns(MXUnsafeReadWarning):
        assert b.asnumpy().shape == (2,)
    assert isinstance(b.error, ZeroDivisionError)


def test_waitall_raises_a_failure_nobody_saw() -> None:
    nd.test_fails(nd.ones((2,)))
    with pytest.raises(ZeroDivisionError):
        mx_ndarray.waitall()
    mx_ndarray.waitall()


def test_results_whose_shape_is_computed() -> None:
    a = nd.test_positive(nd.array([3, -1, 2]))
    assert a.shape == (2,)
    np.testing.assert_array_equal((a * 2).asnumpy(), [6, 4])
    assert nd.test_positive(nd.array([-1])).shape == (0,)


def test_a_read_only_array_is_not_assigned_to() -> None:
    a = nd.ones((2,))
    a.writable = False
    with pytest.raises(ArgumentError):
        a += 1
    with pytest.raises(ArgumentError):
        a[:] = 0


def test_sizes_beyond_memory_are_an_error() -> None:
    with pytest.raises(MXNetError):
        nd.empty((2**40, 2**40))
    with pytest.raises(MXNetError):
        nd.empty((-1,))
    with pytest.raises(MXNetError):
        nd.empty((1,) * 40)


@pytest.mark.timeout(60)
def test_threads_share_arrays() -> None:
    total = nd.zeros((4,))
    lock = threading.Lock()

    def work() -> None:
        for _ in range(200):
            local = nd.ones((4,)) * 2
            with lock:
                total[:] = total + local

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(total.asnumpy(), [1600] * 4)


def test_numbers_of_bfloat16_print_as_numbers() -> None:
    assert repr(nd.ones((2,), dtype="bfloat16")) == "\n[1. 1.]\n<NDArray 2 @cpu(0)>"


@pytest.mark.parametrize("statement", ["a += 'x'", "a += [1]", "a += None", "a -= 'x'", "a **= None"])
def test_in_place_operators_refuse_what_is_no_number(statement: str) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        exec(statement, {"a": nd.ones((2,))})


def test_arrays_are_walked_backwards() -> None:
    assert [float(x) for x in reversed(nd.array([1, 2, 3]))] == [3, 2, 1]


def test_axes_come_and_go_in_place() -> None:
    a = nd.zeros((2, 1))
    for view in (a.squeeze(inplace=True), a.expand_dims(0, inplace=True), a.flatten(inplace=True)):
        view += 1
    assert a.asnumpy().tolist() == [[3], [3]]
    assert a.expand_dims(axis=0).squeeze().flatten().shape == (2, 1)
    assert a.expand_dims(0, inplace=True).shape == (1, 2, 1)


def test_broadcast_to_adds_axes_in_front() -> None:
    assert nd.ones((2, 3)).broadcast_to((4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(ShapeError, match="broadcast_to"):
        nd.broadcast_to(nd.ones((2, 3)), shape=(4, 2, 3))


def test_the_type_none_is_float32() -> None:
    assert nd.ones((2,), dtype="int32").astype(None).dtype is np.float32


def test_an_empty_array_that_numpy_cannot_have_is_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"\[asnumpy\] NumPy has no array of shape \(0, 4611686018427387904\)"
    ):
        nd.zeros((0, 2**62)).asnumpy()


def test_a_power_assigned_makes_a_new_array() -> None:
    a = nd.array([1, 2, 3])
    same = a
    a **= 2
    assert a.asnumpy().tolist() == [1, 4, 9] and same.asnumpy().tolist() == [1, 2, 3]
    x = nd.array([1, 2, 3])
    x.attach_grad()
    with autograd.record():
        y = x * 2
        y **= 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [8, 16, 24]
