# SPDX-License-Identifier: Apache-2.0
"""`mx.registry`: functions that register classes of a program's own kind by name, and make their instances."""

from __future__ import annotations

import difflib
import json
import sys as _sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mx.absent import explain as _explain
from mx_core.errors import ArgumentError

__all__ = ["get_alias_func", "get_create_func", "get_register_func", "get_registry"]

C = TypeVar("C", bound=type)

_classes: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of what is registered below a class: lower-case name -> class."""
    return dict(_classes.get(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function `register(klass, name=None)`, usable as a decorator, for subclasses of `base_class`.

    Parameters
    ----------
    base_class : type
    nickname : str
        What such classes are called in messages.

    Returns
    -------
    callable
        It raises ArgumentError for what is no subclass, and warns of a name that gets another class.
    """
    known = _classes.setdefault(base_class, {})

    def register(klass: C, name: str | None = None) -> C:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            raise ArgumentError(
                f"[register] expected a subclass of {base_class.__name__} to be a {nickname}, got {klass!r}"
            )
        key = (klass.__name__ if name is None else name).lower()
        if known.get(key, klass) is not klass:
            warnings.warn(
                f"[register] {nickname} {key!r} was {_path(known[key])} and is {_path(klass)} now",
                stacklevel=2,
            )
        known[key] = klass
        return klass

    register.__doc__ = f"Makes a {nickname} known by its name, or by another one."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A decorator `alias(*names)` that registers a subclass of `base_class` under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[C], C]:
        def decorate(klass: C) -> C:
            for name in names:
                register(klass, name)
            return klass

        return decorate

    alias.__doc__ = f"Makes a {nickname} known under further names."
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function `create(...)` that makes an instance of a registered subclass of `base_class`.

    Parameters
    ----------
    base_class, nickname : as of `get_register_func`

    Returns
    -------
    callable
        Its first argument, which may also be given by the name `nickname`, is a registered name with arguments for the
        class; an instance, which comes back as it is; a mapping with the name under `nickname`, and arguments; or the
        JSON of such a mapping, or of a list of name and mapping of arguments. It raises ArgumentError for an unknown
        name, and for arguments beside an instance.
    """
    known = _classes.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        name, rest = (args[0], args[1:]) if args else (kwargs.pop(nickname, None), ())
        if isinstance(name, base_class):
            if rest or kwargs:
                raise ArgumentError(
                    f"[create] {nickname}: expected no arguments beside an instance, got {rest or kwargs}"
                )
            return name
        if isinstance(name, Mapping):
            return create(**name)
        if not isinstance(name, str):
            raise ArgumentError(
                f"[create] {nickname}: expected a name or an instance of {base_class.__name__}, got {name!r}"
            )
        if name.startswith(("[", "{")):
            if rest or kwargs:
                raise ArgumentError(
                    f"[create] {nickname}: expected no arguments beside JSON, got {rest or kwargs}"
                )
            told = json.loads(name)
            return create(**told) if isinstance(told, dict) else create(told[0], **told[1])
        found = known.get(name.lower())
        if found is None:
            close = difflib.get_close_matches(name.lower(), known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ArgumentError(
                f"[create] no {nickname} {name!r} is registered; known: {', '.join(sorted(known)) or 'none'}{hint}"
            )
        return found(*rest, **kwargs)

    create.__doc__ = f"Makes a {nickname} by name."
    return create


def _path(klass: type) -> str:
    return f"{klass.__module__}.{klass.__name__}"


_explain(_sys.modules[__name__], [__name__])
