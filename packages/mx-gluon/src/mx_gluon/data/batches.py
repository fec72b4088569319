# SPDX-License-Identifier: Apache-2.0
"""Batches of samples: how they are made, and how they come from another process in shared memory."""

from __future__ import annotations

import io
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.context import Context
from mx_ndarray import NDArray, nd, shared_memory

#: numbers of bytes and of descriptors of a message
_HEADER = struct.Struct("=QQ")
#: descriptors that one call of the kernel passes
_MOST = 200


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stacks samples: NDArrays, numbers and NumPy arrays along a new first axis, tuples part by part into a list."""
    return _stacked(data, None)


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """As `default_batchify_fn`, in memory that processes share."""
    return _stacked(data, shared_memory.CONTEXT)


def _stacked(data: Sequence[Any], context: Context | None) -> Any:
    first = data[0]
    if isinstance(first, NDArray):
        if context is None:
            return nd.stack(*data)
        out = nd.empty((len(data), *first.shape), context, first.dtype)
        return nd.stack(*data, out=out)
    if isinstance(first, tuple):
        return [_stacked(part, context) for part in zip(*data, strict=True)]
    array = np.asarray(data)
    return nd.array(array, context, array.dtype)


def in_context(data: Any, context: Context) -> Any:
    """A batch with its arrays on a context."""
    if isinstance(data, NDArray):
        return data.as_in_context(context)
    return [in_context(part, context) for part in data] if isinstance(data, (list, tuple)) else data


# ---- between processes ----


class _Pickler(pickle.Pickler):
    """Leaves out arrays, whose memory travels by itself."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[NDArray] = []

    def persistent_id(self, obj: Any) -> Any:
        """The place of an array's memory among that of all."""
        if not isinstance(obj, NDArray) or obj.size == 0:
            return None
        array = obj.as_in_context(shared_memory.CONTEXT)
        _, fd, shape, dtype, offset = shared_memory.to_shared_mem(array)
        self.arrays.append(array)
        return len(self.arrays) - 1, fd, shape, dtype, offset


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, descriptors: Sequence[int]) -> None:
        super().__init__(file)
        self._descriptors = descriptors

    def persistent_load(self, pid: Any) -> NDArray:
        """The array, in main memory that nobody else uses any more."""
        place, _, shape, dtype, offset = pid
        return shared_memory.from_descriptor(
            self._descriptors[place], shape, dtype, offset, Context("cpu", 0)
        )


class Message:
    """A value, and the memory of the arrays in it, ready to be sent."""

    def __init__(self, value: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        self._text = file.getbuffer()
        self._arrays = pickler.arrays  # their segments live until they are sent

    def send(self, to: socket.socket) -> None:
        """Sends it; blocks until it is on its way.

        Raises
        ------
        OSError  nobody receives
        """
        fds = [shared_memory.to_shared_mem(array)[1] for array in self._arrays]
        to.sendall(_HEADER.pack(len(self._text), len(fds)))
        for begin in range(0, len(fds), _MOST):
            socket.send_fds(to, [b"\0"], fds[begin : begin + _MOST])
        to.sendall(self._text)


def receive(source: socket.socket) -> Any:
    """The next value that a `Message` has.

    Raises
    ------
    EOFError  the sender is gone
    """
    size, count = _HEADER.unpack(_exactly(source, _HEADER.size))
    descriptors: list[int] = []
    try:
        while len(descriptors) < count:
            most = min(_MOST, count - len(descriptors))
            byte, fds, _, _ = socket.recv_fds(source, 1, most, socket.MSG_CMSG_CLOEXEC)
            descriptors += fds
            if not byte:
                raise EOFError
        return _Unpickler(io.BytesIO(_exactly(source, size)), descriptors).load()
    finally:
        for fd in descriptors:
            socket.close(fd)


def _exactly(source: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, had = memoryview(data), 0
    while had < size:
        n = source.recv_into(view[had:])
        if n == 0:
            raise EOFError
        had += n
    return data
