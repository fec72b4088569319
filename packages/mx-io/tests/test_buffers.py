# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc

import numpy as np

from mx_io.arrays import to_ndarray
from mx_io.iterators.buffers import BufferPool


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_array_is_gone():
    pool = BufferPool((4, 3), np.float32, keep=2)
    first = pool.take()
    assert first.shape == (4, 3) and first.dtype == np.float32 and address(first) % 4096 == 0
    place = address(first)
    del first
    assert address(pool.take()) == place


def test_a_slice_keeps_the_memory():
    pool = BufferPool((100,), np.uint8, keep=2)
    array = pool.take()
    array[:] = 7
    part = array[10:20][::2]
    del array
    other = pool.take()
    other[:] = 9
    assert part.tolist() == [7] * 5


def test_an_ndarray_keeps_the_memory_until_it_is_gone():
    pool = BufferPool((50,), np.float32, keep=2)
    array = pool.take()
    place = address(array)
    array[:] = 3
    shared = to_ndarray(array)
    del array
    others = [pool.take() for _ in range(3)]
    assert place not in [address(other) for other in others]
    assert shared.asnumpy().tolist() == [3.0] * 50
    del shared, others
    gc.collect()
    assert pool.take().flags.writeable


def test_no_more_than_keep_blocks_are_held():
    pool = BufferPool((10,), np.uint8, keep=2)
    arrays = [pool.take() for _ in range(5)]
    del arrays
    places = {address(pool.take()) for _ in range(5)}
    assert len(places) <= 2 and len(pool._known) == 2
