# SPDX-License-Identifier: Apache-2.0
"""mx runs in the main interpreter of a process only."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def require_main() -> None:
    """Refuses to go on in a sub-interpreter, where native parts would wait for the lock for ever.

    Raises
    ------
    ImportError  this is not the main interpreter
    """
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters: Any = import_module(name)
        except ImportError:  # built without it
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "mx cannot be imported in a sub-interpreter: its engine and its arrays belong to the main "
                "interpreter of the process; use a process of its own, or a thread"
            )
        return
