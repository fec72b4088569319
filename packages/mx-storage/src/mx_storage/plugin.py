# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-storage.

Forks need no hook: the pools and the random streams guard themselves with `pthread_atfork`.
"""

from __future__ import annotations

import sys
from typing import Any

from mx_core import PluginInfo, hookimpl
from mx_core.errors import SettingError
from mx_storage.choice import VARIABLES, chosen

MX_PLUGIN = PluginInfo(
    summary="Pools of main memory, memory shared between processes, random streams", variables=VARIABLES
)
MX_HOOK_API = (1, 0)

_MANAGERS = {
    "Pooled": "pooled",
    "Round": "rounded",
    "Pages": "pages",
    "BestFit": "best_fit",
    "Naive": "naive",
}


@hookimpl
def mx_register_storage_managers(registry: Any) -> None:
    """The managers for host memory; the environment's choice has the higher priority."""
    try:
        selected = chosen()
    except SettingError:  # raised again by the first use of memory, when this one is made
        selected = "unknown"
        registry.add("cpu", selected, "mx_storage.choice:chosen", priority=10)
    for name, make in _MANAGERS.items():
        priority = 10 if name == selected else 0
        registry.add("cpu", name, f"mx_storage.managers:{make}", priority=priority)
        # page-locked memory comes from a device's package, which goes before these
        registry.add("cpu_pinned", name, f"mx_storage.managers:{make}", priority=priority - 20)
    registry.add("cpu_shared", "Shared", "mx_storage.managers:shared", priority=10)


@hookimpl
def mx_register_resources(registry: Any) -> None:
    """Counters of random streams, which are the same thing on every device."""
    for device, priority in (("cpu", 10), ("cpu_pinned", 10), ("cpu_shared", 10), ("gpu", -10)):
        registry.add("random", device, "mx_storage.managers:random", priority=priority)


@hookimpl
def mx_diagnostics() -> dict[str, str]:
    """One line per storage manager in use."""
    managers = sys.modules.get("mx_storage.managers")  # absent: no memory was ever asked for
    if managers is None:
        return {"storage": "not used yet"}
    lines = {}
    for manager in managers.managers():
        stats = manager.stats()
        where = "cpu(0)" if manager.shared_capsule is None else "cpu_shared(0)"
        lines[f"storage {manager.name} {where}"] = (
            f"{stats.bytes_in_use} bytes in use, {stats.bytes_pooled} pooled, peak {stats.bytes_peak}"
        )
    return lines
