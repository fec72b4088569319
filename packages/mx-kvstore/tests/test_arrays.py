# SPDX-License-Identifier: Apache-2.0
"""Operations of the engine that another thread ends."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.errors import ArgumentError, DTypeError, MXNetError
from mx_kvstore._core import sum_memory
from mx_kvstore.arrays import check_compressed, host_of, in_main_memory, push, sums
from mx_ndarray import nd


def test_another_thread_writes_and_ends_it() -> None:
    x, y, seen = nd.ones((2, 3)), nd.zeros((2, 3)), []

    def start(done: Any, read: Any, written: Any) -> None:
        seen.append((read.shape, read.flags.writeable, written.flags.writeable))

        def work() -> None:
            np.multiply(read, 5, out=written)
            done(None)

        threading.Timer(0.1, work).start()

    push(start, "test", (x * 2,), (y,), 0)
    z = y + 1
    np.testing.assert_array_equal(z.asnumpy(), np.full((2, 3), 11.0))
    assert seen == [((6,), False, True)]


def test_views_of_one_array_are_one_variable() -> None:
    x = nd.arange(6)
    push(lambda done, a, b, c: (c.__iadd__(a + b), done(None)), "test", (x[0:2], x[2:4]), (x[4:6],), 0)
    np.testing.assert_array_equal(x.asnumpy(), [0, 1, 2, 3, 6, 9])


@pytest.mark.parametrize("moment", ["at once", "later", "raised"])
def test_failures_are_those_of_what_is_written(moment: str) -> None:
    y = nd.zeros((2,))

    def start(done: Any, written: Any) -> None:
        if moment == "raised":
            raise MXNetError("lost")
        error = MXNetError("lost")
        threading.Timer(0.1, done, (error,)).start() if moment == "later" else done(error)

    push(start, "test", (), (y,), 0)
    with pytest.raises(MXNetError, match="lost"):
        y.wait_to_read()


def test_one_that_is_given_up_or_ended_twice() -> None:
    y, kept = nd.zeros((2,)), []
    push(lambda done, written: None, "test", (), (y,), 0)
    with pytest.raises(MXNetError, match="the operation was given up"):
        y.wait_to_read()
    z = nd.zeros((2,))
    push(lambda done, written: (kept.append(done), done(None)), "test", (), (z,), 0)
    z.wait_to_read()
    kept[0](MXNetError("too late"))
    np.testing.assert_array_equal(z.asnumpy(), 0)


def test_empty_arrays() -> None:
    y, sizes = nd.zeros((0, 3)), []
    push(lambda done, written: (sizes.append(written.size), done(None)), "test", (), (y,), 0)
    y.wait_to_read()
    assert sizes == [0]


def test_main_memory_and_types() -> None:
    x = nd.ones((2,))
    assert in_main_memory(x) is x and host_of(x) is x
    check_compressed("a", x)
    with pytest.raises(DTypeError, match=r"key 'a': gradients of float32 are compressed, got float16"):
        check_compressed("a", nd.ones((2,), dtype="float16"))


KINDS = ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool", "complex64"]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_memory_is_summed_in_the_order_of_terms(name: str, terms: int) -> None:
    code = dtypes.code(name)
    kind, random = dtypes.numpy_dtype(code), np.random.default_rng(terms)
    sizes = (0, 1, 63, 300_001)
    sources = [[random.integers(0, 30, size).astype(kind) for _ in range(terms)] for size in sizes]
    for arrays in sources:
        arrays[0].flags.writeable = False
    targets = [[np.empty(size + 1, kind)[1:], np.empty(size, kind)] for size in sizes]
    sums([code] * len(sizes), sources, targets)
    for arrays, totals in zip(sources, targets, strict=True):
        wide = "float32" if name.endswith("float16") else kind
        expected = np.add.reduce([array.astype(wide) for array in arrays]).astype(kind)
        for total in totals:
            assert total.tobytes() == expected.tobytes()


def test_memory_that_cannot_be_summed_is_refused() -> None:
    values, code = np.zeros(12, np.uint8), dtypes.code("float32")
    frozen = values.copy()
    frozen.flags.writeable = False
    for arguments, error in (
        (([code], [[values]], []), ArgumentError),
        (([code], [[]], [[values]]), ArgumentError),
        (([code], [[values, values[:8]]], [[values]]), ArgumentError),
        (([code], [[values]], [[values[:8]]]), ArgumentError),
        (([code], [[values[:6]]], [[values[:6]]]), ArgumentError),
        (([code], [[values]], [[frozen]]), ArgumentError),
        (([99], [[values]], [[values]]), DTypeError),
        (([code], [[values[::2]]], [[values]]), TypeError),
        (([code], [[values.view(np.float32)]], [[values]]), TypeError),
    ):
        with pytest.raises(error):
            sum_memory(*arguments)
    sum_memory([], [], [])
