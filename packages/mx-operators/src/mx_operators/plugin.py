# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators."""

from __future__ import annotations

from typing import Any

from mx_core import hookimpl
from mx_operators.operator_table import OPERATORS


@hookimpl
def mx_register_operators(registry: Any) -> None:
    """Every operator declared in this package; its module is imported when it is first asked for."""
    registry.add_later(OPERATORS)
