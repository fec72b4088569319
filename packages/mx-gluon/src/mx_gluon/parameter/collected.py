# SPDX-License-Identifier: Apache-2.0
"""Arrays of parameters that a block or a trainer has collected, so as not to ask each parameter again.

A version lasts until a parameter gets other arrays or another request. What was collected is let go then: it may hold
values and gradients that nobody else needs.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from mx_core.weak import WeakGroup

T = TypeVar("T")
#: what was collected in it
Version = WeakGroup["Collected[object]"]

_present: Version = WeakGroup()


class Collected(Generic[T]):
    """Keeps a value for one key, until a parameter changes; a copy of it is empty.

    Threads: any.

    Attributes
    ----------
    state : (Version or None, key or None, value or None)
    """

    __slots__ = ("__weakref__", "state")

    def __init__(self) -> None:
        self.state: tuple[Version | None, object, T | None] = (None, None, None)

    def __reduce__(self) -> tuple[type[Collected[T]], tuple[()]]:
        return Collected, ()

    def get(self, key: object) -> T | None:
        """The value, if it is this key's and no parameter has changed."""
        version, known, value = self.state
        return value if version is _present and known is key else None

    def put(self, version: Version, key: object, value: T) -> None:
        """Keeps a value.

        Parameters
        ----------
        version : of `present()`, before the first look at a parameter: what changed meanwhile is seen at the next `get`
        """
        known = self.state[0]
        self.state = version, key, value
        if known is not version:
            version.add(self)  # type: ignore[arg-type]  # what it holds is only let go


def present() -> Version:
    """The version of now."""
    return _present


def end() -> None:
    """Begins another version."""
    global _present
    ended, _present = _present, WeakGroup()
    for each in ended:
        each.state = (None, None, None)
