# SPDX-License-Identifier: Apache-2.0
"""Which axes a reduction is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def reduced_axes(p: Any, rank: int) -> set[int]:
    """The axes a reduction is over."""
    if not p.axis:
        return set(range(rank))
    named = {axis % rank for axis in p.axis}
    return set(range(rank)) - named if getattr(p, "exclude", False) else named


def kept_shape(p: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Reduced axes with extent 1."""
    axes = reduced_axes(p, len(shape))
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
