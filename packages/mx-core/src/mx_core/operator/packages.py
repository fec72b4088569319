# SPDX-License-Identifier: Apache-2.0
"""The operators that a package declares."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, TypeGuard

from mx_core.operator.declaration import Operator


def operators_in(package: str) -> Iterator[type[Operator[Any]]]:
    """Every operator class declared in the modules of a package, which are imported.

    An operator class has a `name`; it is a member of a module, or of a tuple that is.

    Examples
    --------
    >>> @hookimpl
    ... def mx_register_operators(registry):
    ...     for operator in operators_in("mx_example_operators"):
    ...         registry.add(operator)
    """
    root = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.walk_packages(root.__path__, package + "."))
    found: dict[type[Operator[Any]], None] = {}
    for module in (root, *map(importlib.import_module, names)):
        for member in vars(module).values():
            for value in member if isinstance(member, tuple) else (member,):
                if _is_operator(value) and f"{value.__module__}.".startswith(f"{package}."):
                    found[value] = None
    yield from found


def _is_operator(value: object) -> TypeGuard[type[Operator[Any]]]:
    if not isinstance(value, type) or not issubclass(value, Operator):
        return False
    return isinstance(getattr(value, "name", None), str)
