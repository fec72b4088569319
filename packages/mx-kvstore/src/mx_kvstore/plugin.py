# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-kvstore."""

from __future__ import annotations

from typing import Any

from mx_core import hookimpl


@hookimpl
def mx_register_kvstores(registry: Any) -> None:
    """The stores of one process."""
    make = "mx_kvstore.local:KVStore"
    registry.add("local", make, aliases=("local_update_cpu", "local_allreduce_cpu"))
    registry.add("device", make, aliases=("local_allreduce_device",))
