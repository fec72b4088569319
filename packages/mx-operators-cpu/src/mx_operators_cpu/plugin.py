# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators-cpu."""

from __future__ import annotations

from typing import Any

import mx_core
from mx_operators_cpu import register
from mx_operators_cpu.settings import VARIABLES

MX_PLUGIN = mx_core.PluginInfo(
    summary="Kernels for the CPU: oneDNN and vectorised loops", variables=VARIABLES
)


@mx_core.hookimpl
def mx_register_kernels(registry: Any) -> None:
    """Kernels of single operators."""
    register.register_kernels(registry)


@mx_core.hookimpl
def mx_register_kernel_generators(registry: Any) -> None:
    """Generators of kernels from elementwise expressions."""
    register.register_generators(registry)


@mx_core.hookimpl
def mx_register_graph_passes(registry: Any) -> None:
    """Weights packed once."""
    register.register_passes(registry)
