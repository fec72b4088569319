# SPDX-License-Identifier: Apache-2.0
"""Arrays of more than 2³¹ elements: what lies behind the first 2³¹ is found, computed and written."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mx

WIDTH = 64
ROWS = 2**31 // WIDTH + 3
SIZE = ROWS * WIDTH  # 2.0 GiB of one byte each
#: bytes: four arrays, and what others take meanwhile
NEEDED = 12 << 30


def available() -> int:
    """Bytes of main memory that can be had."""
    pages: int = os.sysconf("SC_AVPHYS_PAGES")
    return pages * os.sysconf("SC_PAGE_SIZE")


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(available() < NEEDED, reason=f"needs {NEEDED >> 30} GiB of free memory"),
]


@pytest.fixture
def x() -> Iterator[Any]:
    """Zeros, but for 1, 2, …, 9 at the very end."""
    made = mx.nd.zeros((SIZE,), dtype="int8")
    made[SIZE - 9 :] = mx.nd.arange(1, 10, dtype="int8")
    yield made
    mx.nd.waitall()
    del made
    gc.collect()


def end(array: Any, n: int = 9) -> list[int]:
    """The last elements."""
    assert array.size >= SIZE
    values: list[int] = array.reshape((-1,))[SIZE - n :].asnumpy().tolist()
    return values


def test_indexing(x: Any) -> None:
    assert x.shape == (SIZE,) and SIZE > 2**31
    assert x[SIZE - 1].asscalar() == 9 and x[-9].asscalar() == 1
    assert x[SIZE - 20 :: 5].asnumpy().tolist() == [0, 0, 0, 5]
    x[2**31 + 1] = 77
    assert x[2**31 - 1 : 2**31 + 3].asnumpy().tolist() == [0, 0, 77, 0]


def test_elementwise(x: Any) -> None:
    y = x + x
    assert end(y) == [2 * i for i in range(1, 10)]
    y *= x
    assert end(y, 2) == [128 - 256, 162 - 256]
    assert end(mx.nd.relu(-x)) == [0] * 9


def test_copies_and_casts(x: Any) -> None:
    y = x.copy()
    y[SIZE - 1] = 0
    assert end(x, 1) == [9] and end(y, 2) == [8, 0]
    assert end(x.astype("uint8")) == list(range(1, 10))


def test_reductions(x: Any) -> None:
    assert x.max().asscalar() == 9 and x.min().asscalar() == 0
    assert x.sum().asscalar() == 45
    table = x.reshape((ROWS, WIDTH))
    assert table.sum(axis=0).asnumpy().tolist() == [0] * (WIDTH - 9) + list(range(1, 10))
    assert table.sum(axis=1)[ROWS - 2 :].asnumpy().tolist() == [0, 45]


def test_rows(x: Any) -> None:
    table = x.reshape((ROWS, WIDTH))
    assert table.argmax(axis=1)[ROWS - 2 :].asnumpy().tolist() == [0, WIDTH - 1]
    rows = mx.nd.take(table, mx.nd.array([ROWS - 1, 0], dtype="int64"))
    assert rows.asnumpy()[:, -2:].tolist() == [[8, 9], [0, 0]]
    part = mx.nd.slice(table, begin=(ROWS - 2, WIDTH - 3), end=(ROWS, WIDTH))
    assert part.asnumpy().tolist() == [[0, 0, 0], [7, 8, 9]]
    flags = mx.nd.where(table > 8, mx.nd.ones_like(table), table)
    assert end(flags, 3) == [7, 8, 1]


def test_the_way_to_numpy(x: Any) -> None:
    host = x.asnumpy()
    assert host.size == SIZE and int(np.count_nonzero(host)) == 9 and host[-1] == 9
