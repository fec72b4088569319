# SPDX-License-Identifier: Apache-2.0
"""Profiling the servers of a distributed store, which are other processes.

A store that has servers offers a method `profile_servers(command, arguments)`: it has each server call
`run_here` with them, which is the function `command` of that process's `mx_engine.profiler`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mx_core.errors import ArgumentError, MXNetError

#: functions of the profiler that a worker may have a server call
COMMANDS = ("set_config", "set_state", "pause", "resume", "dump")

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


def run_here(rank: int, command: str, arguments: Mapping[str, Any]) -> None:
    """In a server: what a worker has told the servers of its store to do.

    Parameters
    ----------
    rank : int
        Of this server. Names of its files begin with `rank0_`, `rank1_` and so on, as those of MXNet's servers.
    command : str
        One of `COMMANDS`.
    arguments : mapping

    Raises
    ------
    ArgumentError  it is another command, or has other arguments
    MXNetError     the profiler refuses it, or the file cannot be written
    """
    from mx_engine import profiler

    if command not in COMMANDS:
        raise ArgumentError(f"[profiler] command: expected one of {', '.join(COMMANDS)}, got {command!r}")
    told = dict(arguments)
    if "filename" in told:
        folder, name = os.path.split(str(told["filename"]))
        told["filename"] = os.path.join(folder, f"rank{rank}_{name}")
    try:
        getattr(profiler, command)(**told)
    except MXNetError:
        raise
    except (OSError, TypeError, ValueError) as error:
        kind = MXNetError if isinstance(error, OSError) else ArgumentError
        raise kind(f"[profiler.{command}] {error}") from error
