# SPDX-License-Identifier: Apache-2.0
"""What is current in each thread: a manager of names, a scope of attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Current(threading.local, Generic[T]):
    """A value of each thread's own, made when it is first asked for.

    Threads: any; each sees its own.

    Parameters
    ----------
    make : callable
        The value of a thread that has not set one.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held: T | None = None

    @property
    def value(self) -> T:
        """The calling thread's."""
        if self._held is None:
            self._held = self._make()
        return self._held

    @value.setter
    def value(self, value: T) -> None:
        self._held = value
