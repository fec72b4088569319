# SPDX-License-Identifier: Apache-2.0
"""Stores by name: first those that a script registered, then those of plug-ins, mx's own included."""

from __future__ import annotations

import difflib
import os
import warnings
from typing import Any

import mx_kvstore.teststore  # noqa: F401  it registers itself
from mx_core import environment, plugins
from mx_core.errors import ArgumentError
from mx_core.exits import exits_refused
from mx_kvstore.contract import KVStoreBase

#: what to use for names of MXNet that need libraries of their own
_INSTEAD = {
    **dict.fromkeys(("horovod", "byteps"), "Use 'device', or 'dist_device_sync' for several machines"),
    "nccl": "Install mx-operators-cuda, or use 'device'",
}

#: what variables begin with that are settings of stores
_SETTINGS = "MX_KV"


def create(name: str = "local", engine: str | None = None) -> Any:
    """A new store.

    Parameters
    ----------
    name : str
        `local` (also `local_update_cpu`, `local_allreduce_cpu`), `device` (also
        `local_allreduce_device`), a name a plug-in brings, or the class name of a registered
        `KVStoreBase`; without regard to case.
    engine : str, optional
        Which plug-in's store, where several have one of this name: they register `name@engine`. By default that of
        MX_KVSTORE_ENGINE, then the only one there is.

    Raises
    ------
    ArgumentError
        There is no such store, or several plug-ins have one and none is chosen.
    """
    found, wanted = _found(name, engine)
    _warn_of_misspelt()
    if found is None:
        return KVStoreBase.kv_registry[wanted]()
    with exits_refused(f"kvstore {found!r}"):
        return plugins.registry("kvstores").get(found).value.make(wanted)


def _warn_of_misspelt() -> None:
    """Tells of variables that look like settings of stores and that nothing reads; Python shows each once."""
    known = dict(environment.VARIABLES)
    for record in plugins.plugins():
        known.update(record.info.variables)
    for name, close in environment.unknown(known).items():
        if name.startswith(_SETTINGS):
            hint = f"; did you mean {close}?" if close else ""
            warnings.warn(f"[kvstore.create] nothing reads the variable {name}{hint}", stacklevel=3)


def check(store: str | KVStoreBase | None) -> None:
    """Refuses what trainings cannot have as their store; makes none.

    Raises
    ------
    ArgumentError
        It is no store, no name of one and not None; or several plug-ins have one of that name and none is chosen.
    """
    if isinstance(store, str):
        _found(store, None)
    elif store is not None and not isinstance(store, KVStoreBase):
        raise ArgumentError(
            f"kvstore: expected the name of a store, a KVStoreBase or None, got {store!r:.80}"
        )


def _found(name: str, engine: str | None) -> tuple[str | None, str]:
    """The name under which a plug-in has registered a store, None for one of a script, and the name in lower case."""
    if not isinstance(name, str):
        raise ArgumentError(f"[kvstore.create] name: expected a str, got {name!r}")
    wanted = name.lower()
    if engine is None and wanted in KVStoreBase.kv_registry:
        return None, wanted
    registry = plugins.registry("kvstores")
    registered = _chosen(wanted, engine, registry) if wanted not in registry or engine else wanted
    if registered not in registry:
        own = dict.fromkeys(each.partition("@")[0] for each in registry.names())
        known = ", ".join([*own, *sorted(KVStoreBase.kv_registry)])
        close = difflib.get_close_matches(wanted, [*own, *KVStoreBase.kv_registry], 1)
        hint = _INSTEAD.get(wanted) or plugins.missing_hint("kvstores", wanted)
        if close and not hint:
            hint = f"Did you mean {close[0]!r}?"
        raise ArgumentError(f"[kvstore.create] unknown kvstore {name!r}; known: {known}. {hint}".rstrip())
    return registered, wanted


def _chosen(wanted: str, engine: str | None, registry: Any) -> str:
    """The name under which a store of an engine is registered; `wanted` itself if no engine has one."""
    engines = sorted({each.partition("@")[2] for each in registry.names() if "@" in each})
    offered = [each for each in engines if f"{wanted}@{each}" in registry]  # by an alias, too
    asked = engine or (os.environ.get("MX_KVSTORE_ENGINE", "").strip() if offered else "")
    if not asked and len(offered) <= 1:
        return f"{wanted}@{offered[0]}" if offered else wanted
    if asked.lower() not in (each.lower() for each in offered):
        setting = "engine" if engine else "MX_KVSTORE_ENGINE"
        what = f"{setting}: expected one of {', '.join(offered) or 'none'}, got {asked!r}"
        if not asked:
            what = f"{', '.join(offered)} have one; choose by engine= or MX_KVSTORE_ENGINE, or use mx launch"
        raise ArgumentError(f"[kvstore.create] {wanted!r}: {what}")
    return f"{wanted}@{asked}"
