# SPDX-License-Identifier: Apache-2.0
"""Profiling the servers of a distributed store, which are other processes.

A store that has servers offers a method `profile_servers(command, arguments)`: it has each server call
`mx_engine.profiler.told.run_here` with them, which is the function `command` of that process's profiler.
"""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError

_store: Any = None


def set_kvstore_handle(handle: Any) -> None:
    """The store whose servers `profile_process='server'` means; None for none.

    Raises
    ------
    ArgumentError
        It has no servers that could be profiled.
    """
    global _store
    if handle is not None and not hasattr(handle, "profile_servers"):
        raise ArgumentError(
            f"[profiler.set_kvstore_handle] expected a store with servers (a method profile_servers), "
            f"got {type(handle).__name__}"
        )
    _store = handle


def to_servers(command: str, profile_process: str, **arguments: Any) -> bool:
    """False for this process; else the command was sent to the servers.

    Raises
    ------
    ArgumentError
        Another process than `worker` and `server`, or no store with servers.
    """
    if profile_process == "worker":
        return False
    if profile_process != "server":
        raise ArgumentError(
            f"[profiler.{command}] profile_process: expected 'worker' (this process) or 'server', "
            f"got {profile_process!r}"
        )
    if _store is None:
        raise ArgumentError(
            f"[profiler.{command}] profile_process: there is no store with servers; name it with "
            "set_kvstore_handle first"
        )
    _store.profile_servers(command, arguments)
    return True
