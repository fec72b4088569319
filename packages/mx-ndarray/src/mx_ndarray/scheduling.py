# SPDX-License-Identifier: Apache-2.0
"""In which order the engine takes up work that is ready."""

from __future__ import annotations

from typing import Self

from mx_core.errors import ArgumentError
from mx_ndarray import _core

_LIMIT = 2**31


class priority(_core.Scope):
    """A block whose operations have a priority: of those that are ready, larger ones start first.

    It belongs to the thread, is 0 outside, and never changes a result.

    Threads: each enters a block of its own; an instance is not shared.

    Parameters
    ----------
    value : int
        Of 32 bits.

    Raises
    ------
    ArgumentError  it is no such integer

    Examples
    --------
    >>> with priority(-3):
    ...     gradient.copyto(target)
    """

    def __new__(cls, value: int) -> Self:
        if not hasattr(value, "__index__") or not -_LIMIT <= value.__index__() < _LIMIT:
            raise ArgumentError(f"[priority] expected an integer of 32 bits, got {value!r}")
        return super().__new__(cls, None, None, value.__index__())
