# SPDX-License-Identifier: Apache-2.0
"""Attributes that are computed at their first use, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed at its first use and kept in the object's `__dict__`.

    `functools.cached_property` of Python 3.11 takes a lock that all objects of a class share. A child forked while
    another thread computes one finds that lock taken for ever.

    Threads: any. When several use it for the first time at once, each may compute it, and all get the same value.

    Examples
    --------
    >>> class Circle:
    ...     def __init__(self, radius):
    ...         self.radius = radius
    ...
    ...     @cached_property
    ...     def area(self):
    ...         return 3 * self.radius**2
    >>> circle = Circle(2)
    >>> circle.area
    12
    >>> circle.radius = 5
    >>> circle.area
    12
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__
        self.__module__ = compute.__module__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
