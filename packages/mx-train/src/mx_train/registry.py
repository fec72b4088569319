# SPDX-License-Identifier: Apache-2.0
"""Registries of classes by name: built-in ones, those of plug-ins, and those that a script registers."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from mx_core import plugins
from mx_core.errors import ArgumentError
from mx_core.exits import exits_refused
from mx_core.plugins.specs import resolve

T = TypeVar("T")


class Named(Mapping[str, Callable[..., T]]):
    """A family such as optimizers: `register` a class, `create` an instance by name; a mapping from name to class.

    Names are not case sensitive. What plug-ins bring through `mx_register_<kind>` is found too.

    Threads: any may look up; classes are registered by one at a time.
    """

    def __init__(self, kind: str, what: str) -> None:
        self.kind = kind
        self.what = what
        self._own: dict[str, Callable[..., T]] = {}

    def register(self, cls: type[T], *names: str) -> type[T]:
        """Makes a class known under its own name and `names`; usable as a decorator."""
        for name in (cls.__name__, *names):
            self._own[name.lower()] = cls
        return cls

    def find(self, name: str) -> Callable[..., T]:
        """The class or factory.

        Raises
        ------
        ArgumentError  unknown; the message has the known names, the closest one, and a plug-in that
                       did not load and may have brought it
        """
        wanted = name.lower()
        if wanted in self._own:
            return self._own[wanted]
        registry = plugins.registry(self.kind)
        for spelling in (name, wanted):
            if spelling in registry:
                made: Callable[..., T] = resolve(registry.get(spelling).value.make)
                return made
        known = set(self)
        close = difflib.get_close_matches(wanted, known, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        missing = plugins.missing_hint(self.kind, wanted)
        raise ArgumentError(
            f"unknown {self.what} {name!r}; known: {', '.join(sorted(known))}.{hint} {missing}".rstrip()
        )

    def __getitem__(self, name: str) -> Callable[..., T]:
        try:
            return self.find(name)
        except ArgumentError as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._own, *plugins.registry(self.kind).names()}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def create(self, name: str | T, /, *args: Any, **kwargs: Any) -> T:
        """An instance by name; an instance is returned as it is."""
        if not isinstance(name, str):
            return name
        make = self.find(name)
        with exits_refused(f"{self.what} {name!r}"):
            return make(*args, **kwargs)


def read_config(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments that JSON gives: `{"KIND": NAME, ARGUMENT: VALUE, ...}` or `[NAME, ARGUMENTS]`.

    Parameters
    ----------
    kind : str
        Such as "metric": the key of the name.

    Raises
    ------
    ArgumentError  it is something else
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"[{kind}] expected JSON, got {text!r:.200}: {error}") from None
    if isinstance(found, dict) and isinstance(found.get(kind), str):
        return found.pop(kind), found
    if isinstance(found, list) and [type(each) for each in found] == [str, dict]:
        return found[0], found[1]
    raise ArgumentError(
        f"[{kind}] expected an object with the key {kind!r}, or a name and an object of arguments, got {text!r:.200}"
    )
