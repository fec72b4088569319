# SPDX-License-Identifier: Apache-2.0
"""Servers as actors of Ray: a name in the namespace of their job, restarted by Ray when they are lost."""

from __future__ import annotations

from typing import Any

from mx_kvstore_ray.settings import ServerPlace

#: requests that an actor has under way at once; those that wait for other workers take nothing but memory
_AT_ONCE = 1_000_000


def name_of(server: int) -> str:
    """The name of a server's actor."""
    return f"server-{server}"


def start(ray: Any, place: ServerPlace) -> Any:
    """Has Ray start the actor of a server, and start it again whenever it is lost; its handle.

    Parameters
    ----------
    ray : module
    place : ServerPlace
    """
    from mx_kvstore_ray.parameter_server import ParameterServer  # with NumPy, which other commands need not

    options = {
        "name": name_of(place.number), "num_cpus": 0.01, "max_restarts": -1, "max_task_retries": 0,
        "max_concurrency": _AT_ONCE,
    }  # fmt: skip
    return ray.remote(ParameterServer).options(**options).remote(place)


def retried(ray: Any) -> tuple[type[BaseException], ...]:
    """Errors of Ray after which a request is sent again: an actor, or the memory of its answer, is gone."""
    found = ray.exceptions
    return found.RayActorError, found.ObjectLostError, found.WorkerCrashedError, found.NodeDiedError
