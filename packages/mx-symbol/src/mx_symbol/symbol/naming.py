# SPDX-License-Identifier: Apache-2.0
"""Automatic names: `convolution0`, `convolution1`, a counter per hint and per thread's manager."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import ClassVar, Self


class NameManager:
    """Names symbols that were not given a name; in a `with` block it is the thread's current one.

    Threads: each has its own current manager; a manager is used by one thread at a time.

    Examples
    --------
    >>> with NameManager():
    ...     a = Variable("a")
    ...     (a + a).name
    '_plus0'
    """

    _local: ClassVar[threading.local] = threading.local()

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    @classmethod
    def current(cls) -> NameManager:
        """The calling thread's manager."""
        found: NameManager | None = getattr(NameManager._local, "value", None)
        if found is None:
            found = NameManager._local.value = NameManager()
        return found

    def get(self, name: str | None, hint: str) -> str:
        """`name` if there is one, else the next name of the hint."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> Self:
        self._outer.append(NameManager.current())
        NameManager._local.value = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        NameManager._local.value = self._outer.pop()


class Prefix(NameManager):
    """Puts a prefix before every name, explicit ones included.

    Parameters
    ----------
    prefix : str
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The name with the prefix."""
        return self._prefix + super().get(name, hint)
