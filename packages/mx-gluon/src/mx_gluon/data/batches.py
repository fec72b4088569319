# SPDX-License-Identifier: Apache-2.0
"""Batches of samples: how they are made, and how they come from another process in shared memory."""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from mx_core.context import Context
from mx_core.errors import DTypeError, ShapeError
from mx_ndarray import NDArray, nd, shared_memory


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stacks samples: NDArrays, numbers and NumPy arrays along a new first axis, tuples part by part into a list."""
    return _stacked(data, None)


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """As `default_batchify_fn`, in memory that processes share."""
    return _stacked(data, shared_memory.CONTEXT)


def _stacked(data: Sequence[Any], context: Context | None) -> Any:
    first = data[0]
    if isinstance(first, NDArray):
        out = None if context is None else nd.empty((len(data), *first.shape), context, first.dtype)
        try:
            return nd.stack(*data, out=out)
        except ShapeError:
            _expect_one_shape([each.shape for each in data])
            raise
    if isinstance(first, tuple):
        return [_stacked(part, context) for part in zip(*data, strict=True)]
    try:
        array = np.asarray(data)
    except ValueError:  # arrays or lists of several lengths
        _expect_one_shape([_extents(each) for each in data])
        raise
    if array.dtype.kind in "OUS":
        raise DTypeError(
            f"[default_batchify_fn] samples: expected NDArrays, numbers, NumPy arrays or tuples of these, got "
            f"{type(first).__name__}; give the DataLoader a batchify_fn, or the data set a transform"
        )
    return nd.array(array, context, array.dtype)


def _extents(sample: Any) -> tuple[int, ...]:
    try:
        return np.shape(sample)
    except ValueError:  # lists in it have several lengths
        return (len(sample),)


def _expect_one_shape(shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuses samples of several shapes.

    Raises
    ------
    ShapeError  one has another shape than the first
    """
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ShapeError(
                f"[default_batchify_fn] samples of a batch: expected one shape, got {shapes[0]} first and {shape} as "
                f"number {place}; make them equal in a transform, or give the DataLoader a batchify_fn, such as one "
                "that pads"
            )


def in_context(data: Any, context: Context) -> Any:
    """A batch with its arrays on a context."""
    if isinstance(data, NDArray):
        return data.as_in_context(context)
    return [in_context(part, context) for part in data] if isinstance(data, (list, tuple)) else data


# ---- between a program and the processes that it has forked, through a pipe of their own ----


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
    """A value, and the memory of the arrays in it, ready to be sent.

    Threads: one at a time.
    """

    def __init__(self, value: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        self._text = file.getbuffer()
        self._arrays = pickler.arrays  # their segments live until they are sent

    def send(self, to: Connection) -> None:
        """Sends it; blocks until it is on its way.

        Raises
        ------
        OSError  nobody receives
        """
        to.send_bytes(len(self._arrays).to_bytes(8, "little"))
        for array in self._arrays:
            reduction.send_handle(to, shared_memory.to_shared_mem(array)[1], None)
        to.send_bytes(self._text)


def receive(source: Connection) -> Any:
    """The next value that a `Message` has.

    Raises
    ------
    EOFError  the sender is gone
    OSError   it is, too, or no descriptor is left for an array: nothing more can be received then
    """
    descriptors: list[int] = []
    try:
        for _ in range(int.from_bytes(source.recv_bytes(), "little")):
            try:
                descriptors.append(reduction.recv_handle(source))
            except RuntimeError as error:  # it came, but has no place here
                raise OSError(
                    errno.EMFILE, "no file descriptor is left for its arrays (ulimit -n)"
                ) from error
        return _Unpickler(io.BytesIO(source.recv_bytes()), descriptors).load()
    finally:
        for fd in descriptors:
            os.close(fd)


def pickled(error: BaseException) -> bytes | None:
    """An exception as bytes, if it can be made again of them."""
    try:
        text = pickle.dumps(error)
        pickle.loads(text)
    except Exception:
        return None
    return text


def unpickled(error: bytes | None) -> Exception | None:
    """The exception that `pickled` had; None for what would end the program or the epoch."""
    try:
        made = None if error is None else pickle.loads(error)
    except Exception:
        return None
    return made if isinstance(made, Exception) and not isinstance(made, StopIteration) else None
