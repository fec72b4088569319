# SPDX-License-Identifier: Apache-2.0
"""The operators that modules and packages declare."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeGuard

from mx_core.imports import import_by_name
from mx_core.operator.declaration import Operator, check_name


def operators_in(*names: str) -> Iterator[type[Operator[Any]]]:
    """Every operator class declared in modules, and in all modules of packages. They are imported.

    An operator class has a `name`; it is a member of a module, or of a tuple that is. Classes without one are
    bases of others. Kernels that need something that may not be installed belong into modules that are not named
    here.

    Raises
    ------
    PluginError  a class that computes something, and from which none derives, has no name

    Examples
    --------
    >>> @hookimpl
    ... def mx_register_operators(registry):
    ...     for operator in operators_in(
    ...         "mx_example_operators.moving_average", "mx_example_operators.simple"
    ...     ):
    ...         registry.add(operator)
    """
    found: dict[type[Operator[Any]], None] = {}
    nameless: list[type[Operator[Any]]] = []
    for name in names:
        for module in modules_of(name):
            for value in members(module):
                if not f"{value.__module__}.".startswith(f"{name}."):
                    continue
                if has_name(value):
                    found[value] = None
                else:
                    nameless.append(value)
    for value in filter(_is_forgotten, nameless):
        check_name(value)
    yield from found


def members(module: ModuleType) -> Iterator[type[Operator[Any]]]:
    """Operator classes that are members of a module, or of a tuple that is; bases, and those of others, too."""
    for member in vars(module).values():
        for value in member if isinstance(member, tuple) else (member,):
            if _is_operator(value):
                yield value


def has_name(cls: type[Operator[Any]]) -> bool:
    """Whether it is an operator, and no base of others."""
    return isinstance(getattr(cls, "name", None), str)


def modules_of(name: str) -> Iterator[ModuleType]:
    """A module, or a package and all modules in it. They are imported."""
    root = import_by_name(name)
    yield root
    inner = sorted(info.name for info in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{name}."))
    yield from map(importlib.import_module, inner)


def _is_operator(value: object) -> TypeGuard[type[Operator[Any]]]:
    return isinstance(value, type) and issubclass(value, Operator)


def _is_forgotten(nameless: type[Operator[Any]]) -> bool:
    """A class that computes something, and from which none derives, whose name was forgotten."""
    computes = "function" in vars(nameless) or "reference" in vars(nameless)
    return computes and not nameless.__subclasses__() and not nameless.__name__.startswith("_")
