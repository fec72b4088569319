# SPDX-License-Identifier: Apache-2.0
"""Element types by MXNet's type flags; numpy is imported only when a numpy type is asked for."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mx_core.errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

_TABLE: tuple[tuple[str, int], ...] = (
    ("float32", 4), ("float64", 8), ("float16", 2), ("uint8", 1), ("int32", 4), ("int8", 1),
    ("int64", 8), ("bool", 1), ("int16", 2), ("uint16", 2), ("uint32", 4), ("uint64", 8),
    ("bfloat16", 2), ("complex64", 8), ("complex128", 16),
)  # fmt: skip
#: names of all types, each at the place of its flag
NAMES = tuple(name for name, _ in _TABLE)
#: names of the types with fractions
FLOATING = frozenset(("float32", "float64", "float16", "bfloat16"))
_CODES = {name: code for code, (name, _) in enumerate(_TABLE)} | {"bool_": 7}


def code(dtype: Any, where: str = "") -> int:
    """Type flag of a name, a type flag, a numpy dtype or a numpy (or Python) scalar type.

    Parameters
    ----------
    where : str
        The beginning of the error message, such as "[zeros] dtype".

    Raises
    ------
    DTypeError  there is no such element type; the message lists those that are
    """
    if isinstance(dtype, str):
        found = _CODES.get(dtype)
        if found is None:  # NumPy's other names, such as "f4"
            found = _foreign(dtype)
    elif isinstance(dtype, int) and not isinstance(dtype, bool):
        found = int(dtype) if 0 <= dtype < len(_TABLE) else None
    else:
        found = _foreign(dtype)
    if found is None:
        asked = f"{where}: " if where else ""
        known = ", ".join(n for n, _ in _TABLE)
        close = difflib.get_close_matches(str(dtype), _CODES, 1)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise DTypeError(f"{asked}unknown element type {dtype!r}; known: {known}{hint}")
    return found


def _foreign(dtype: Any) -> int | None:
    import numpy as np

    try:
        return _CODES.get(np.dtype(dtype).name)
    except (TypeError, ValueError, SyntaxError):
        return None


def name(code: int) -> str:
    """Name of a type flag, `float32`; `unknown(17)` for a flag that has none."""
    return _TABLE[code][0] if 0 <= code < len(_TABLE) else f"unknown({code})"


def itemsize(code: int) -> int:
    """Bytes of one element."""
    return _TABLE[code][1]


@lru_cache(maxsize=64)
def numpy_dtype(code: int) -> np.dtype[Any]:
    """The numpy dtype of a type flag (bfloat16 comes from ml_dtypes)."""
    import numpy as np

    if name(code) == "bfloat16":
        import ml_dtypes

        brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return brain
    if not 0 <= code < len(_TABLE):
        raise DTypeError(f"unknown type flag {code}")
    return np.dtype(name(code))
