# SPDX-License-Identifier: Apache-2.0
"""Asynchronous dependency engine with a C++ core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mx_core  # noqa: F401  first, since it refuses sub-interpreters, where native parts would hang

if TYPE_CHECKING:
    from mx_engine._core import Completion, Engine, Variable
    from mx_engine.engines import create

__all__ = ["Completion", "Engine", "Variable", "create"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The public names, imported at first use so that importing the package costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'mx_engine' has no attribute {name!r}")
    from mx_engine import _core, engines

    return getattr(engines if name == "create" else _core, name)
