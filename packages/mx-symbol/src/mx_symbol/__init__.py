# SPDX-License-Identifier: Apache-2.0
"""Symbolic graphs, memory planning and the executor."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "AttrScope": "mx_symbol.symbol.attribute",
    "CachedOp": "mx_symbol.runtime.cached_op",
    "Executor": "mx_symbol.runtime.executor",
    "Group": "mx_symbol.symbol",
    "NameManager": "mx_symbol.symbol.naming",
    "Prefix": "mx_symbol.symbol.naming",
    "Symbol": "mx_symbol.symbol",
    "Variable": "mx_symbol.symbol",
    "load": "mx_symbol.serialization.json_reader",
    "load_json": "mx_symbol.serialization.json_reader",
    "var": "mx_symbol.symbol",
}
__all__ = [
    "AttrScope", "CachedOp", "Executor", "Group", "NameManager", "Prefix", "Symbol", "Variable",
    "load", "load_json", "sym", "var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name == "sym":
        return importlib.import_module("mx_symbol.sym")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
