# SPDX-License-Identifier: Apache-2.0
"""Sizes of windows: one number for all axes, or one for each."""

from __future__ import annotations

from collections.abc import Sequence

from mx_gluon.errors import RefusedError

Extent = int | Sequence[int]


def extent(given: Extent, axes: int, what: str) -> tuple[int, ...]:
    """One integer per axis.

    Raises
    ------
    RefusedError  another number of integers
    """
    made = tuple(given) if isinstance(given, Sequence) else (int(given),) * axes
    if len(made) != axes:
        raise RefusedError(f"{what}: expected an integer or {axes} of them, got {given}")
    return made


def check_layout(layout: str, allowed: Sequence[str], what: str) -> None:
    """Refuses a layout that the layer does not have."""
    if layout not in allowed:
        raise RefusedError(f"{what} layout: expected {' or '.join(map(repr, allowed))}, got {layout!r}")
