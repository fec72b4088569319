# SPDX-License-Identifier: Apache-2.0
"""Importing a module by its name, in a way that several threads may do at once."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def import_by_name(name: str) -> ModuleType:
    """Imports a module, the packages that it lies in first.

    A thread that imports `a.b` may wait in it for `a`, while another one imports `a`, whose code waits for
    `a.b`. Python then gives one of them the other's module unfinished, and names are missing in it. From
    the outside in, nobody holds what another waits for. Threads: any.

    Raises
    ------
    Exception  whatever the module raises
    """
    parts = name.split(".")
    for end in range(1, len(parts)):
        import_module(".".join(parts[:end]))
    return import_module(name)
