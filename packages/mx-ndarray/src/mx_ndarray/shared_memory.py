# SPDX-License-Identifier: Apache-2.0
"""Arrays of `cpu_shared` in several processes.

With this module imported, `multiprocessing` (queues, pipes, pools) passes arrays of `cpu_shared` by
reference: the receiver maps the same memory, as MXNet's data loader does it. Nothing orders accesses of
different processes; wait for an array before it is sent, and do not write it while another one reads.
"""

from __future__ import annotations

import os
from math import prod
from multiprocessing import reduction
from typing import Any

import numpy as np

from mx_core import dtypes, services
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import _core
from mx_ndarray.ndarray import NDArray

CONTEXT = Context("cpu_shared", 0)
_UINT8 = dtypes.code("uint8")


def to_shared_mem(array: NDArray) -> tuple[int, int, tuple[int, ...], int, int]:
    """Where other processes find an array of `cpu_shared`; waits for it.

    Returns
    -------
    pid, fd : this process, and the descriptor of the segment in it; good while the array lives
    shape, dtype : of the array; `dtype` is its type code
    offset : bytes from the begin of the segment

    Raises
    ------
    ArgumentError  the array lies elsewhere
    """
    if array.context.device_type != "cpu_shared":
        raise ArgumentError(f"[to_shared_mem] expected an array on cpu_shared, got one on {array.context}")
    array.wait_to_read()
    segment = services.storage("cpu_shared").segment(_address(array))
    return os.getpid(), segment.fd, array.shape, array._dtype_code, segment.offset


def new_from_shared_mem(pid: int, fd: int, shape: tuple[int, ...], dtype: int, offset: int = 0) -> NDArray:
    """An array on the memory that `to_shared_mem` described, in any process of the same user.

    Raises
    ------
    MXNetError  the segment is gone, too small, or no shared memory
    """
    path = f"/proc/{pid}/fd/{fd}"
    try:
        own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ArgumentError(f"[new_from_shared_mem] {path}: {error.strerror}") from error
    try:
        return from_descriptor(own, tuple(shape), dtype, offset)
    finally:
        os.close(own)


def from_descriptor(
    fd: int, shape: tuple[int, ...], dtype: int, offset: int = 0, context: Context = CONTEXT
) -> NDArray:
    """An array on a segment of shared memory, whose descriptor the caller keeps.

    Parameters
    ----------
    shape, dtype, offset : as `to_shared_mem` gives them
    context : Context
        Where the array says to be: `cpu` for memory that no other process uses any more.

    Raises
    ------
    MXNetError  the segment is too small, or no shared memory
    """
    nbytes = prod(shape) * dtypes.itemsize(dtype)
    block = services.storage("cpu_shared").attach(fd, offset + nbytes, "ndarray")
    kind = dtypes.numpy_dtype(dtype)
    values = np.frombuffer(block, kind, prod(shape), offset).reshape(shape)
    return _core.share_numpy(values, dtype, (context.device_typeid, context.device_id))


def _address(array: NDArray) -> int:
    flat = _core.view(array, 0, _UINT8, (array.size * dtypes.itemsize(array._dtype_code),))
    return int(np.from_dlpack(flat).ctypes.data)


def _rebuild(fd: Any, shape: tuple[int, ...], dtype: int, offset: int) -> NDArray:
    own = fd.detach()
    try:
        return from_descriptor(own, shape, dtype, offset)
    finally:
        os.close(own)


def _reduce(array: NDArray) -> Any:
    if array.context.device_type != "cpu_shared" or array.size == 0:
        return array.__reduce__()
    _, fd, shape, dtype, offset = to_shared_mem(array)
    return _rebuild, (reduction.DupFd(fd), shape, dtype, offset)


reduction.ForkingPickler.register(NDArray, _reduce)
