# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-kvstore-ray. Ray is imported when the first store is made."""

from __future__ import annotations

import sys

from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.plugins.registrars import CommandRegistrar, KVStoreRegistrar
from mx_kvstore_ray.settings import VARIABLES

MX_PLUGIN = PluginInfo(summary="Distributed stores whose servers run on Ray", variables=VARIABLES)
MX_HOOK_API = (1, 0)


@hookimpl
def mx_register_kvstores(registry: KVStoreRegistrar) -> None:
    """The stores of several processes."""
    make = "mx_kvstore_ray.store:make"
    registry.add("dist_sync@ray", make, aliases=("dist@ray",))
    registry.add("dist_device_sync@ray", make, aliases=("dist_sync_device@ray", "dist_device@ray"))
    registry.add("dist_async@ray", make)
    registry.add("dist_device_async@ray", make, aliases=("dist_async_device@ray",))


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx launch --engine ray`."""
    registry.add("launch@ray", "mx_kvstore_ray.launch:launch")


@hookimpl
def mx_fork(stage: str) -> None:
    """A child of a worker is no member of the job."""
    world = sys.modules.get("mx_kvstore_ray.world")
    if stage == "child" and world is not None:
        world.forget()


@hookimpl
def mx_shutdown() -> None:
    """Leaves the job."""
    world = sys.modules.get("mx_kvstore_ray.world")
    if world is not None:
        world.close()
