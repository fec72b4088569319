# SPDX-License-Identifier: Apache-2.0
"""Contributions of plug-ins as attributes of a namespace."""

from __future__ import annotations

from typing import Any

from mx_core import plugins
from mx_core.plugins.specs import resolve


def registered(kind: str, name: str, module: str) -> Any:
    """The object registered under a name; AttributeError of `module` when there is none.

    The message names a plug-in that did not load and may have brought it.
    """
    registry = None if name.startswith("_") else plugins.registry(kind)
    if registry is None or name not in registry:
        hint = "" if registry is None else plugins.missing_hint(kind, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}. {hint}".rstrip())
    return resolve(registry.get(name).value.make)


def names(kind: str) -> tuple[str, ...]:
    """Every name registered of a kind."""
    return plugins.registry(kind).names()
