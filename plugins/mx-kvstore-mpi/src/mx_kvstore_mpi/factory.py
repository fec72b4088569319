# SPDX-License-Identifier: Apache-2.0
"""Stores by name, for jobs without and with servers."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_kvstore_mpi import settings, world
from mx_kvstore_mpi.requests import Requests
from mx_kvstore_mpi.roles import end_as
from mx_kvstore_mpi.rounds import Rounds
from mx_kvstore_mpi.server_store import ServerStore
from mx_kvstore_mpi.store import SyncStore


def _exchange(joined: world.World) -> world.Exchange:
    """What the communication thread of a worker runs."""
    if joined.job.servers:
        job = joined.job
        return Requests(joined.waiter, job.workers, job.servers, settings.slice_threshold())
    return Rounds(joined.waiter, joined.together, joined.network)


def make(name: str) -> Any:
    """The store of a name: for workers alone, or with servers if the job has some.

    A process that MXNet's launcher has started as a server or scheduler serves until the job has ended, and ends then.

    Raises
    ------
    ArgumentError  an asynchronous store in a job without servers
    NoJobError     the process was started by no launcher
    SettingError   a variable of the environment has a wrong value
    MXNetError     the job has failed
    """
    if world.current() is None:
        settings.check()
        place = settings.place()
        if place.role == "scheduler" or (place.role == "server" and place.workers):
            end_as(place)
    joined = world.join(_exchange)
    if joined.job.servers:
        return ServerStore(name, joined)
    if "async" in name:
        raise ArgumentError(
            f"[kvstore.create] {name!r} needs servers, and the job has none; start it as `mx launch -n "
            f"{joined.job.workers} -s 1 python train.py`"
        )
    return SyncStore(name, joined)
