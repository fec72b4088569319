# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: which are installed and loaded, and the registries of what they provide.

Consumers need this module alone; authors of plug-ins need `mx_core.hookimpl`, `mx_core.PluginInfo`
and, for annotations, `hookspecs` and `registrars`. The other modules are the loader, in the order in
which it uses them: `discovery`, `loading`, `registries`, `loaded`.
"""

from mx_core.plugins.aside import Fault, faults, is_aside, set_aside
from mx_core.plugins.discovery import PluginRecord, discover
from mx_core.plugins.loaded import (
    diagnostics,
    implementations,
    kernel_entries,
    missing_hint,
    plugins,
    read_graph,
    registry,
    reset,
    select_kernel,
    stub_modules,
)
from mx_core.plugins.registries import Entry, Registry

__all__ = [
    "Entry",
    "Fault",
    "PluginRecord",
    "Registry",
    "diagnostics",
    "discover",
    "faults",
    "implementations",
    "is_aside",
    "missing_hint",
    "plugins",
    "read_graph",
    "kernel_entries",
    "registry",
    "reset",
    "select_kernel",
    "set_aside",
    "stub_modules",
]
