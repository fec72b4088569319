# SPDX-License-Identifier: Apache-2.0
"""Containers of weak references in which no code runs when a value ends.

The containers of the module `weakref` remove a value in a callback. Python swallows a Ctrl-C that lands in a callback,
and the program runs on. Here what has ended is dropped when the container has doubled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar
from weakref import ref

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_FEWEST = 16  # references from which those to nothing are looked for


class WeakTable(Generic[K, V]):
    """Values by key, as long as something else refers to them.

    Threads: any, as long as each key is set by one.
    """

    def __init__(self) -> None:
        self._references: dict[K, ref[V]] = {}
        self._limit = _FEWEST

    def __setitem__(self, key: K, value: V) -> None:
        self._references[key] = ref(value)
        if len(self._references) >= self._limit:
            for known, reference in list(self._references.items()):
                if reference() is None:
                    self._references.pop(known, None)
            self._limit = max(_FEWEST, 2 * len(self._references))

    def get(self, key: K) -> V | None:
        """The value of a key; None if there is none any more."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def items(self) -> list[tuple[K, V]]:
        """Keys and values that are alive."""
        found = ((key, reference()) for key, reference in list(self._references.items()))
        return [(key, value) for key, value in found if value is not None]

    def __len__(self) -> int:
        return len(self.items())


class WeakGroup(Generic[V]):
    """Objects, as long as something else refers to them, in the order in which they came.

    Threads: any.
    """

    def __init__(self) -> None:
        self._members: WeakTable[int, V] = WeakTable()
        self._numbers = count()

    def add(self, member: V) -> None:
        """Adds one."""
        self._members[next(self._numbers)] = member

    def __iter__(self) -> Iterator[V]:
        return iter([member for _, member in self._members.items()])
