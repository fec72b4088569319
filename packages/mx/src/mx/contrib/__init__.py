# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib`: what MXNet keeps apart."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx.contrib import amp as amp


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module("mx.contrib.amp")
    raise AttributeError(f"module 'mx.contrib' has no attribute {name!r}")
