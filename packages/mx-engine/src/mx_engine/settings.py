# SPDX-License-Identifier: Apache-2.0
"""Environment variables of the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from mx_core.errors import SettingError

T = TypeVar("T", int, float)
#: the native parts take 32 bits
MOST = 2**31 - 1


def _read(name: str, default: T, parse: Callable[[str], T], kind: str) -> T:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = parse(text)
    except ValueError:
        raise SettingError(f"[{name}] expected {kind}, got {text!r}") from None
    if not 0 <= value <= MOST:
        raise SettingError(f"[{name}] expected {kind} from 0 to {MOST}, got {text[:40]}")
    return value


def integer(name: str, default: int) -> int:
    """The whole number in an environment variable.

    Raises
    ------
    SettingError
        It holds something else, a negative number, or one above `MOST`.
    """
    return _read(name, default, int, "a whole number")


def flag(name: str) -> bool:
    """Whether an environment variable is set to something else than 0; raises like `integer`."""
    return integer(name, 0) != 0


def seconds(name: str, default: float) -> float:
    """The time in an environment variable, in seconds; raises like `integer`."""
    return _read(name, default, float, "a number of seconds")


def default_workers() -> int:
    """Compute threads per CPU device when nothing is set: one per core, at most four.

    Operations that use all cores themselves run on one of these threads only, so more of them
    helps nothing but small independent operations.
    """
    return max(1, min(4, len(os.sched_getaffinity(0))))
