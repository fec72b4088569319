# SPDX-License-Identifier: Apache-2.0
"""Conversions between NumPy arrays, which are used inside, and the NDArrays of iterators and `mx_io.image`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_ndarray import NDArray


def to_ndarray(array: np.ndarray[Any, Any]) -> NDArray:
    """An NDArray on the CPU that shares the memory of a contiguous writable array and keeps it alive.

    The array becomes read-only: all writes then go through the NDArray.
    """
    from mx_ndarray.nd import from_numpy

    return from_numpy(np.require(array, requirements=("C", "A", "W")))


def on_host(shape: tuple[int, ...], context: Context, dtype: Any) -> tuple[NDArray, np.ndarray[Any, Any]]:
    """A new NDArray in a context of main memory, and its memory as a NumPy array, for writing before others read."""
    from mx_ndarray.nd import empty

    array = empty(shape, ctx=context, dtype=dtype)
    return array, np.from_dlpack(array)


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """A NumPy array from an NDArray (waits for it) or from anything NumPy takes."""
    return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)
