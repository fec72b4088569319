# SPDX-License-Identifier: Apache-2.0
"""Shapes as callers give them."""

from __future__ import annotations

from typing import Any


def extents(shape: Any) -> tuple[Any, ...]:
    """One length or several as a tuple; NumPy arrays of integers too, which look like one integer.

    Raises
    ------
    TypeError  it is neither an integer nor iterable
    """
    one = hasattr(shape, "__index__") and not getattr(shape, "shape", ())
    return (shape,) if one else tuple(shape)
