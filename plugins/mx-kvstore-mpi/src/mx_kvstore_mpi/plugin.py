# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-kvstore-mpi. MPI is imported when the first store is made."""

from __future__ import annotations

import sys

from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.plugins.registrars import CommandRegistrar, KVStoreRegistrar
from mx_kvstore_mpi.settings import VARIABLES

MX_PLUGIN = PluginInfo(summary="Distributed stores over MPI, and mx launch", variables=VARIABLES)
MX_HOOK_API = (1, 0)


@hookimpl
def mx_register_kvstores(registry: KVStoreRegistrar) -> None:
    """The stores of several processes."""
    make = "mx_kvstore_mpi.factory:make"
    registry.add("dist_sync@mpi", make, aliases=("dist@mpi",))
    registry.add("dist_device_sync@mpi", make, aliases=("dist_sync_device@mpi", "dist_device@mpi"))
    registry.add("dist_async@mpi", make)
    registry.add("dist_device_async@mpi", make, aliases=("dist_async_device@mpi",))


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx launch`, also with its engine said."""
    for name in ("launch", "launch@mpi"):
        registry.add(name, "mx_kvstore_mpi.launch:launch")


@hookimpl
def mx_fork(stage: str) -> None:
    """A child of a worker is no member of the job."""
    world = sys.modules.get("mx_kvstore_mpi.world")
    if stage == "child" and world is not None:
        world.forget()


@hookimpl
def mx_shutdown() -> None:
    """Leaves the job."""
    world = sys.modules.get("mx_kvstore_mpi.world")
    if world is not None:
        world.close()
