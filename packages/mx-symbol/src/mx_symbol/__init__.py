# SPDX-License-Identifier: Apache-2.0
"""Symbolic graphs, memory planning and the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_symbol.runtime.cached_op import CachedOp as CachedOp
    from mx_symbol.runtime.executor import Executor as Executor
    from mx_symbol.serialization.json_reader import load as load
    from mx_symbol.serialization.json_reader import load_json as load_json
    from mx_symbol.symbol import Group as Group
    from mx_symbol.symbol import Symbol as Symbol
    from mx_symbol.symbol import Variable as Variable
    from mx_symbol.symbol import var as var
    from mx_symbol.symbol.attribute import AttrScope as AttrScope
    from mx_symbol.symbol.naming import NameManager as NameManager
    from mx_symbol.symbol.naming import Prefix as Prefix

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_symbol.runtime.cached_op": ["CachedOp"],
        "mx_symbol.runtime.executor": ["Executor"],
        "mx_symbol.serialization.json_reader": ["load", "load_json"],
        "mx_symbol.symbol": ["Group", "Symbol", "Variable", "var"],
        "mx_symbol.symbol.attribute": ["AttrScope"],
        "mx_symbol.symbol.naming": ["NameManager", "Prefix"],
    },
    ["sym"],
)
