# SPDX-License-Identifier: Apache-2.0
"""How far metrics, schedules and loss scales are: the numbers among their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, str, type(None))


def numbers_of(thing: Any) -> dict[str, Any]:
    """Attributes that are numbers, text, or NumPy arrays and containers of them, as JSON can hold them.

    Attributes that are objects with attributes of their own are among them, as the metrics in a composite one are.
    """
    found = {name: _told(value, 3) for name, value in vars(thing).items()}
    return {name: value for name, value in found.items() if value is not None}


def _told(value: Any, depth: int) -> Any:
    """What JSON holds of a value, in a list with its kind; None for what it cannot hold."""
    if isinstance(value, np.generic):
        return ["array", value.dtype.str, value.tolist(), []]
    if isinstance(value, _PLAIN):
        return ["plain", value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return ["array", value.dtype.str, value.ravel().tolist(), list(value.shape)]
    if isinstance(value, (list, tuple)):
        items = [_told(item, depth) for item in value]
        return [type(value).__name__, items] if depth and None not in items else None
    if isinstance(value, dict):
        pairs = [[_told(key, 0), _told(item, depth)] for key, item in value.items()]
        return ["dict", pairs] if depth and all(None not in pair for pair in pairs) else None
    if depth and hasattr(value, "__dict__") and not callable(value):
        inner = {name: _told(each, depth - 1) for name, each in vars(value).items()}
        return ["object", {name: each for name, each in inner.items() if each is not None}]
    return None


def set_numbers(thing: Any, numbers: Mapping[str, Any]) -> None:
    """Gives an object of the same kind the attributes that `numbers_of` told; others stay."""
    for name, told in numbers.items():
        if name in vars(thing):
            setattr(thing, name, _made(told, getattr(thing, name)))


def _made(told: Any, present: Any) -> Any:
    match told:
        case ["plain", value]:
            return value
        case ["array", dtype, values, []] if not isinstance(values, list):
            return np.dtype(dtype).type(values)
        case ["array", dtype, values, shape]:
            return np.array(values, dtype).reshape(shape)
        case ["list" | "tuple" as kind, items]:
            before = list(present) if isinstance(present, (list, tuple)) else []
            before += [None] * (len(items) - len(before))
            made = [_made(item, old) for item, old in zip(items, before, strict=False)]
            return tuple(made) if kind == "tuple" else made
        case ["dict", pairs]:
            old = present if isinstance(present, dict) else {}
            keys = [_made(key, None) for key, _ in pairs]
            return {key: _made(item, old.get(key)) for key, (_, item) in zip(keys, pairs, strict=True)}
        case ["object", attributes]:
            set_numbers(present, attributes)
            return present
    return present
