# SPDX-License-Identifier: Apache-2.0
"""Shared code of neural-network operators: windows, axes, types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.operator import Array, Types

FLOAT32, FLOAT16, BFLOAT16 = 0, 2, 12


def statistics_type(data_type: int | None) -> int | None:
    """Type of parameters and statistics of a normalisation: float32 for 16-bit data."""
    return FLOAT32 if data_type in (FLOAT16, BFLOAT16) else data_type


def infer_statistics(t: Types) -> None:
    """Types of a normalisation over the channels of one example: one, but for statistics."""
    t.unify(["data", "gamma", "beta", "output"])
    for name in ("mean", "std"):
        t.assign(name, statistics_type(t.get("data")))


def per_axis(values: tuple[int, ...], rank: int, default: int) -> tuple[int, ...]:
    """A window parameter with its default filled in: () means `default` on every axis."""
    return tuple(values) if values else (default,) * rank


def positive_axis(axis: int, rank: int) -> int:
    """A negative axis counted from the front."""
    return axis + rank if axis < 0 else axis


def wide(x: Array) -> Array:
    """16-bit floating point as float32, to compute in; other types unchanged."""
    return x.astype(np.float32) if dtypes.code(x.dtype) in (FLOAT16, BFLOAT16) else x


def at(x: Array, place: tuple[int, ...] | tuple[Array, ...]) -> Array:
    """x[..., i, j, …] for the last indices i, j, …"""
    index: tuple[Any, ...] = (..., *place)
    return x[index]


def along(vector: Array, axis: int, ndim: int) -> Array:
    """A vector shaped to broadcast along `axis` of an ndim-dimensional array."""
    shape = [1] * ndim
    shape[axis] = -1
    return vector.reshape(shape)


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int]) -> Array:
    """View (N, C, O…, K…) of the windows of an already padded (N, C, …) array."""
    rank = len(kernel)
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilate, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, span, tuple(range(2, 2 + rank)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in stride))
    return view[(*steps, *(slice(None, None, d) for d in dilate))]


def pad_spatial(x: Array, pad: Sequence[tuple[int, int]], value: float = 0) -> Array:
    """(N, C, …) with the spatial axes padded."""
    return np.pad(x, ((0, 0), (0, 0), *pad), constant_values=value)
