# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators."""

from __future__ import annotations

from typing import Any

from mx_core import hookimpl
from mx_core.operator import operators_in


@hookimpl
def mx_register_operators(registry: Any) -> None:
    """Every operator declared in this package."""
    for operator in operators_in("mx_operators"):
        registry.add(operator)
