# SPDX-License-Identifier: Apache-2.0
"""Shapes as text, as attributes hold them."""

from __future__ import annotations

import ast

from mx_core.errors import FileFormatError


def parse_shape(text: str, where: str) -> tuple[int, ...] | None:
    """The shape `(2, 3)` stands for; None for `None`.

    Raises
    ------
    FileFormatError  the text is no shape
    """
    problem = FileFormatError(f"[{where}] expected a shape such as (2, 3), got {text[:80]!r}")
    if len(text) > 4096:
        raise problem
    try:
        value = ast.literal_eval(text.strip().replace("L", "") or "()")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise problem from None
    if value is None:
        return None
    dims = value if isinstance(value, (tuple, list)) else (value,)
    if not all(isinstance(d, int) and -1 <= d < 2**63 for d in dims):
        raise problem
    return tuple(dims)
