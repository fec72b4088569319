# SPDX-License-Identifier: Apache-2.0
"""Arrays that processes share: what goes through multiprocessing is the memory, not a copy."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import nd, shared_memory

SHARED = Context("cpu_shared")
pytestmark = pytest.mark.timeout(120)


def double(requests: Any, replies: Any) -> None:
    """A process that doubles the arrays it gets, in place, and makes one of its own."""
    array = requests.get()
    array *= 2
    array.wait_to_read()
    mine = nd.array(np.arange(6.0).reshape(2, 3), ctx=SHARED)
    replies.put((array.context.device_type, mine))
    requests.get()  # lives until the other side has mapped its memory


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_arrays_cross_processes_by_reference(method: str) -> None:
    context = multiprocessing.get_context(method)
    requests, replies = context.Queue(), context.Queue()
    process = context.Process(target=double, args=(requests, replies))
    process.start()
    array = nd.array(np.arange(4.0), ctx=SHARED)
    requests.put(array)
    kind, theirs = replies.get(timeout=100)
    requests.put(None)
    process.join(100)
    assert (kind, process.exitcode) == ("cpu_shared", 0)
    np.testing.assert_array_equal(array.asnumpy(), [0, 2, 4, 6])
    np.testing.assert_array_equal(theirs.asnumpy(), np.arange(6.0).reshape(2, 3))
    assert theirs.context == SHARED


def test_views_and_types() -> None:
    whole = nd.array(np.arange(12).reshape(4, 3), ctx=SHARED, dtype="int32")
    part = whole[2:]
    pid, fd, shape, dtype, offset = shared_memory.to_shared_mem(part)
    assert (shape, offset) == ((2, 3), 24)
    again = shared_memory.new_from_shared_mem(pid, fd, shape, dtype, offset)
    again[:] = 7
    again.wait_to_read()
    np.testing.assert_array_equal(whole.asnumpy()[1:], [[3, 4, 5], [7, 7, 7], [7, 7, 7]])
    half = nd.ones((5,), ctx=SHARED, dtype="bfloat16")
    copy = shared_memory.new_from_shared_mem(*shared_memory.to_shared_mem(half))
    assert copy.astype("float32").asnumpy().tolist() == [1.0] * 5


def test_plain_pickling_copies() -> None:
    array = nd.ones((2,), ctx=SHARED)
    copy = pickle.loads(pickle.dumps(array))
    copy[:] = 5
    assert array.asnumpy().tolist() == [1, 1]


def test_what_is_not_shared_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"expected an array on cpu_shared, got one on cpu\(0\)"):
        shared_memory.to_shared_mem(nd.ones((2,)))
    with pytest.raises(ArgumentError, match="/proc/1/fd/99999"):
        shared_memory.new_from_shared_mem(1, 99999, (2,), 0)
    array = nd.ones((2,), ctx=SHARED)
    pid, fd, *_ = shared_memory.to_shared_mem(array)
    with pytest.raises(ArgumentError, match="at least 4000000 bytes"):
        shared_memory.new_from_shared_mem(pid, fd, (1000, 1000), 0)
