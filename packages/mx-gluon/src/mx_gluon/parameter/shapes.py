# SPDX-License-Identifier: Apache-2.0
"""Shapes of which dimensions may be unknown: 0, in NumPy's mode −1."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from mx_core.errors import ArgumentError
from mx_symbol.graph.shape_mode import is_np_shape

Shape = tuple[int, ...]


def is_known(shape: Sequence[int] | None) -> bool:
    """Whether every dimension is known; a shape without axes is one in NumPy's mode only."""
    if shape is None:
        return False
    if is_np_shape():
        return all(size >= 0 for size in shape)
    return len(shape) > 0 and all(size > 0 for size in shape)


def stored(shape: Sequence[int]) -> Shape:
    """A shape as a parameter keeps it in both modes: 0 is an unknown dimension, since no parameter is empty.

    Raises
    ------
    ArgumentError  a size is no integer
    """
    try:
        return tuple(max(operator.index(size), 0) for size in shape)
    except TypeError:
        raise ArgumentError(f"[Parameter] shape: expected integers, got {shape!r}") from None


def fits(shape: Sequence[int], known: Sequence[int]) -> bool:
    """Whether a shape agrees with what is known of it."""
    return len(shape) == len(known) and all(
        old in (-1, 0, new) for new, old in zip(shape, known, strict=True)
    )


def merged(one: Sequence[int], other: Sequence[int]) -> Shape | None:
    """What two shapes say together; None if they contradict each other."""
    if len(one) != len(other):
        return None
    if any(a != b and a > 0 and b > 0 for a, b in zip(one, other, strict=True)):
        return None
    return tuple(b if a in (0, -1) else a for a, b in zip(one, other, strict=True))
