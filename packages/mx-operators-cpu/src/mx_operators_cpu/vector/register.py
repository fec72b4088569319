# SPDX-License-Identifier: Apache-2.0
"""Which operators these kernels compute. The native library loads when the first is prepared."""

from __future__ import annotations

from typing import Any

PRIORITY = 10  # portable native code

#: operator, "module:function" of this folder
KERNELS: tuple[tuple[str, str], ...] = ()


def register_kernels(registry: Any) -> None:
    """Adds the kernels of single operators."""
    for op, make in KERNELS:
        registry.add(op, "cpu", "vector", f"{__package__}.{make}", priority=PRIORITY)


def register_generators(registry: Any) -> None:
    """Adds the generator of kernels for elementwise expressions."""
    registry.add("cpu", "vector", f"{__package__}.elementwise:generate", priority=PRIORITY)
