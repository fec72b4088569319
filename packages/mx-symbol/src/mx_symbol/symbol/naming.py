# SPDX-License-Identifier: Apache-2.0
"""Automatic names: `convolution0`, `convolution1`, a counter per hint and per thread's manager."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Self

from mx_symbol.symbol.current import Current


class _HasCurrent(type):
    """Of `NameManager`, so that `NameManager.current` can be read and set."""

    @property
    def current(cls) -> NameManager:
        return NameManager._current.value

    @current.setter
    def current(cls, manager: NameManager) -> None:
        NameManager._current.value = manager


class NameManager(metaclass=_HasCurrent):
    """Names symbols that were not given a name; in a `with` block it is the thread's current one.

    `NameManager.current` is the calling thread's manager.

    Threads: each has its own current manager; a manager is used by one thread at a time.

    Examples
    --------
    >>> with NameManager():
    ...     a = Variable("a")
    ...     (a + a).name
    '_plus0'
    """

    _current: ClassVar[Current[NameManager]] = Current(lambda: NameManager())  # noqa: PLW0108  which is not there yet

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """`name` if there is one, else the next name of the hint."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> Self:
        self._outer.append(NameManager._current.value)
        NameManager._current.value = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        NameManager._current.value = self._outer.pop()


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
