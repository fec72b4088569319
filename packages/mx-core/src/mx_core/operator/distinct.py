# SPDX-License-Identifier: Apache-2.0
"""Values told apart where Python's == does not: 0.0 from -0.0, of which x/0.0 and x/-0.0 are far apart."""

from __future__ import annotations

import typing
from math import copysign
from typing import Any

_MAY_DIFFER = frozenset((float, tuple))
_NO_FLOATS = (bool, int, str, type(None), Ellipsis)


def distinct(value: Any) -> Any:
    """What stands for a value in a key: -0.0 and NaN, alone or in tuples, equal only themselves.

    Examples
    --------
    >>> distinct((1, -0.0)) == distinct((1, 0.0)), distinct(float("nan")) == distinct(float("nan"))
    (False, True)
    """
    kind = type(value)
    if kind is tuple:
        if not any([type(element) in _MAY_DIFFER for element in value]):
            return value
        return tuple([distinct(element) if type(element) in _MAY_DIFFER else element for element in value])
    if kind is float and (value != value or (value == 0.0 and copysign(1.0, value) < 0.0)):
        return float, repr(value)
    return value


def may_be_float(annotation: Any) -> bool:
    """False where values of a type need no `distinct`: there is no float in them."""
    inner = typing.get_args(annotation)
    return any(map(may_be_float, inner)) if inner else all(annotation is not kind for kind in _NO_FLOATS)
