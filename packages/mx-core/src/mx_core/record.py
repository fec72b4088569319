# SPDX-License-Identifier: Apache-2.0
"""Immutable records, as frozen dataclasses are, whose classes are made without generating code.

A frozen dataclass takes about as long to make as a small module to import. Modules that each program imports have
several.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """Base of records: the annotated names of a class are its members, with defaults where they have values.

    Two are equal if they are of one class and have equal members. Threads: any.

    Examples
    --------
    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(x=1, y=0)
    (Point(x=1, y=0), True)
    """

    _members: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._members = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        names, cls = self._members, type(self)
        own = self.__dict__
        if len(values) > len(names):
            raise TypeError(f"{cls.__name__}: expected {len(names)} values or fewer, got {len(values)}")
        for name in named:
            if name not in names[len(values) :]:
                twice = "is given twice" if name in names else f"is none of {', '.join(names)}"
                raise TypeError(f"{cls.__name__}: {name!r} {twice}")
        for i, name in enumerate(names):
            if i < len(values):
                own[name] = values[i]
            elif name in named:
                own[name] = named[name]
            elif hasattr(cls, name):
                own[name] = getattr(cls, name)
            else:
                raise TypeError(f"{cls.__name__}: {name!r} is not given")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({shown})"
