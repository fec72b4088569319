# SPDX-License-Identifier: Apache-2.0
"""Hook implementations: the module that the entry point in pyproject.toml names.

It is imported when operators are first used, so it imports little itself.
"""

from __future__ import annotations

from typing import Any

from mx_core import PluginInfo, hookimpl
from mx_core.operator import operators_in

MX_PLUGIN = PluginInfo(summary="a tested template of an operator plug-in")


@hookimpl
def mx_register_operators(registry: Any) -> None:
    """Every operator of two modules; backward operators come along with them."""
    for operator in operators_in("mx_example_operators.simple", "mx_example_operators.moving_average"):
        registry.add(operator)


@hookimpl
def mx_register_kernels(registry: Any) -> None:
    """How they are computed; the native module is imported when a kernel is first needed."""
    for name in ("moving_average", "_backward_moving_average"):
        registry.add(name, "cpu", "example_native", f"mx_example_operators._native:{name}")
        registry.add(name, "gpu", "example_cuda", f"mx_example_operators.cuda:{name.lstrip('_')}")
