# SPDX-License-Identifier: Apache-2.0
"""Asynchronous dependency engine with a C++ core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy  # mx_core first: it refuses sub-interpreters, where native parts would hang

if TYPE_CHECKING:
    from mx_engine._core import Completion as Completion
    from mx_engine._core import Engine as Engine
    from mx_engine._core import Variable as Variable
    from mx_engine.engines import create as create

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__, {"mx_engine._core": ["Completion", "Engine", "Variable"], "mx_engine.engines": ["create"]}
)
