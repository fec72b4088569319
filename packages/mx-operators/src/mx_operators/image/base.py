# SPDX-License-Identifier: Apache-2.0
"""Shared code of operators on images."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from mx_core.operator import Array, Shapes


def image(s: Shapes, batches: bool = True, name: str = "data") -> tuple[int, ...] | None:
    """The shape of an image (H, W, C), or of a batch of them (N, H, W, C), checked."""
    shape = s.get(name)
    allowed = (3, 4) if batches else (3,)
    if shape is not None and len(shape) not in allowed:
        either = " or (N, H, W, C)" if batches else ""
        raise s.error(f"{name}: expected (H, W, C){either}, got {shape}")
    return None if shape is None else tuple(shape)


def saturated(values: Array, dtype: DTypeLike) -> Array:
    """Values as a type; integers are cut to what it holds, then towards zero."""
    if np.dtype(dtype).kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.nan_to_num(values), limits.min, limits.max).astype(dtype)
