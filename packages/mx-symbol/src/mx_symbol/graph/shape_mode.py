# SPDX-License-Identifier: Apache-2.0
"""The meaning of 0 and () in shapes of symbols: unknown, or as in NumPy.

In MXNet's shapes an extent of 0 is not known, nor is the shape (). NumPy's have arrays without
elements and without axes; then an unknown extent is −1 and an unknown shape None.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Mode(threading.local):
    active: bool | None = None  # None: as in the other threads


_mode = _Mode()
_everywhere = False


def is_np_shape() -> bool:
    """Whether 0 and () are known shapes here."""
    return _everywhere if _mode.active is None else _mode.active


def set_np_shape(active: bool) -> bool:
    """Switches NumPy's shapes on or off, in all threads outside of `np_shape`; returns what was before."""
    global _everywhere
    before = is_np_shape()
    _everywhere = bool(active)
    return before


class np_shape:
    """Scope of one thread in which 0 and () are known shapes, or with `active=False` are not.

    Threads: each is in its own scopes.
    """

    def __init__(self, active: bool = True) -> None:
        self._active = active
        self._outer: list[bool | None] = []

    def __enter__(self) -> np_shape:
        self._outer.append(_mode.active)
        _mode.active = self._active
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _mode.active = self._outer.pop()


def use_np_shape(function: Function) -> Function:
    """A function that runs in the scope `np_shape`, or a class whose methods do."""
    if isinstance(function, type):
        for name, member in list(vars(function).items()):
            if callable(member) and not name.startswith("__"):
                setattr(function, name, use_np_shape(member))
        return function

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with np_shape():
            return function(*args, **kwargs)

    return inside  # type: ignore[return-value]  # wraps keeps the signature
