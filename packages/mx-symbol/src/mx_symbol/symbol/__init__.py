# SPDX-License-Identifier: Apache-2.0
"""`Symbol` and how one is made: variables, calls of operators, names and attributes."""

from __future__ import annotations

from mx_symbol.symbol.symbol import Group, Symbol, Variable, var

__all__ = ["Group", "Symbol", "Variable", "var"]
