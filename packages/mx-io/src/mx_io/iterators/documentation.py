# SPDX-License-Identifier: Apache-2.0
"""Docstrings that list declared parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from mx_core.operator import Params

T = TypeVar("T", bound=type)


def documented(params: type[Params]) -> Callable[[T], T]:
    """Append name, type, default and meaning of each parameter to a class's docstring."""
    lines = ["", "Other Parameters", "----------------"]
    for field in params.fields():
        default = "required" if field.required else f"default {field.default!r}"
        lines += [f"{field.name} : {field.type_name}, {default}", f"    {field.doc}"]

    def add(cls: T) -> T:
        cls.__doc__ = inspect.cleandoc(cls.__doc__ or "") + "\n" + "\n".join(lines)
        return cls

    return add
