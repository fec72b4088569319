# SPDX-License-Identifier: Apache-2.0
"""What a server of a distributed store does when a worker tells it to profile (`servers.py` is the worker's side)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mx_core.errors import ArgumentError, MXNetError
from mx_engine import profiler

#: functions of the profiler that a worker may have a server call
COMMANDS = ("set_config", "set_state", "pause", "resume", "dump")


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
