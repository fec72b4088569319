# SPDX-License-Identifier: Apache-2.0
"""Shapes as text, as attributes hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from mx_core.errors import FileFormatError

#: the attribute of a variable that says how it is stored, and what it holds; -1 is not known
STORAGE = "__storage_type__"
STORAGE_TYPES = {"default": "0", "row_sparse": "1", "csr": "2"}

#: shapes as attributes have them almost always. CPython 3.11 may fail if several threads have `ast` read at once.
_NUMBER = r"-?(?:0|[1-9]\d{0,17})"
_PLAIN = re.compile(rf"\((?:{_NUMBER},|{_NUMBER}(?:, ?{_NUMBER})+,?)?\)", re.ASCII)


def parse_shape(text: str, where: str) -> tuple[int, ...] | None:
    """The shape `(2, 3)` stands for; None for `None`.

    Raises
    ------
    FileFormatError  the text is no shape
    """
    problem = FileFormatError(f"[{where}] expected a shape such as (2, 3), got {text[:80]!r}")
    if len(text) > 4096:
        raise problem
    if _PLAIN.fullmatch(text) is not None:
        dims: tuple[int, ...] = tuple(map(int, re.findall(_NUMBER, text)))
        if min(dims, default=0) < -1:
            raise problem
        return dims
    try:
        value = ast.literal_eval(text.strip().replace("L", "") or "()")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise problem from None
    if value is None:
        return None
    given = value if isinstance(value, (tuple, list)) else (value,)
    if not all(isinstance(d, int) and -1 <= d < 2**63 for d in given):
        raise problem
    return tuple(given)


def storage_type(attrs: Mapping[str, str]) -> str:
    """The storage type that a variable says, "default" if it says none; a number that is none stays as it is."""
    number = attrs.get(STORAGE, "-1")
    return {"-1": "default", **{known: name for name, known in STORAGE_TYPES.items()}}.get(number, number)
