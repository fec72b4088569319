# SPDX-License-Identifier: Apache-2.0
"""Stores by name: first those that a script registered, then those of plug-ins, mx's own included."""

from __future__ import annotations

from typing import Any

from mx_core import plugins
from mx_core.errors import ArgumentError
from mx_core.exits import exits_refused
from mx_kvstore.contract import KVStoreBase


def create(name: str = "local") -> Any:
    """A new store.

    Parameters
    ----------
    name : str
        `local` (also `local_update_cpu`, `local_allreduce_cpu`), `device` (also
        `local_allreduce_device`), a name a plug-in brings, or the class name of a registered
        `KVStoreBase`; without regard to case.

    Raises
    ------
    ArgumentError
        There is no such store.
    """
    if not isinstance(name, str):
        raise ArgumentError(f"[kvstore.create] name: expected a str, got {name!r}")
    wanted = name.lower()
    if wanted in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[wanted]()
    registry = plugins.registry("kvstores")
    if wanted not in registry:
        known = ", ".join([*registry.names(), *sorted(KVStoreBase.kv_registry)])
        hint = plugins.missing_hint("kvstores", wanted)
        raise ArgumentError(f"[kvstore.create] unknown kvstore {name!r}; known: {known}. {hint}".rstrip())
    with exits_refused(f"kvstore {wanted!r}"):
        return registry.get(wanted).value.make(wanted)
