# SPDX-License-Identifier: Apache-2.0
"""Hook implementation of the umbrella: `mx migrate`."""

from __future__ import annotations

from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.plugins.registrars import CommandRegistrar

MX_PLUGIN = PluginInfo(summary="The umbrella, and moving programs from MXNet")
MX_HOOK_API = (1, 0)


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx migrate`."""
    registry.add("migrate", "mx.migrate.command:migrate")
