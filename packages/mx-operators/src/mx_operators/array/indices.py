# SPDX-License-Identifier: Apache-2.0
"""Indices given as arrays of any element type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array


def integers(indices: Array) -> Array:
    """As int64; what is above it becomes its largest value."""
    if indices.dtype.kind not in "iub":
        return np.nan_to_num(indices.astype(np.float64)).astype(np.int64)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def bounded(indices: Array, extent: int, mode: str, op: str) -> Array:
    """Integer indices within 0 … extent − 1 by mode: clip, wrap or raise."""
    if indices.dtype == np.uint64 and mode == "wrap":
        return (indices % np.uint64(max(extent, 1))).astype(np.int64)
    index = integers(indices)
    if extent == 0 and index.size:
        raise IndexOutOfBoundsError(f"[{op}] cannot take {index.size} elements of an axis of extent 0")
    if mode == "clip":
        return np.clip(index, 0, max(extent - 1, 0))
    if mode == "wrap":
        return index % max(extent, 1)
    wrong = (index < -extent) | (index >= extent)
    if wrong.any():
        raise IndexOutOfBoundsError(
            f"[{op}] index {int(index[wrong][0])} is out of bounds for extent {extent}"
        )
    return index % max(extent, 1)


def nd_index(indices: Array, shape: Sequence[int], op: str) -> tuple[Array, ...]:
    """A tuple of index arrays from (M, …) indices, checked."""
    index = integers(indices)
    for axis, (row, extent) in enumerate(zip(index, shape, strict=False)):
        wrong = (row < -extent) | (row >= extent)
        if wrong.any():
            raise IndexOutOfBoundsError(
                f"[{op}] index {int(row[wrong][0])} is out of bounds for axis {axis} with extent {extent}"
            )
    return tuple(index)
