# SPDX-License-Identifier: Apache-2.0
"""What the environment says of the job that a process belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mx_core.environment import switch
from mx_core.errors import SettingError
from mx_kvstore_ray.errors import NoJobError

#: variables that this package reads, each with a sentence
VARIABLES: Mapping[str, str] = {
    "MX_KV_RAY_ADDRESS": "host:port of the Ray cluster of a distributed job; set by `mx launch --engine ray`",
    "MX_KV_RAY_JOB": "namespace of a job's servers in Ray; set by `mx launch --engine ray`",
    "MX_KV_RAY_RANK": "number of a worker; set by `mx launch --engine ray`",
    "MX_KV_RAY_START": "how often a worker was started before; set by `mx launch --engine ray`",
    "MX_KV_RAY_WORKERS": "how many workers a job begins with; set by `mx launch --engine ray`",
    "MX_KV_RAY_SERVERS": "how many servers a job has; set by `mx launch --engine ray`",
    "MX_KVSTORE_RAY_ON_LOSS": "stop, continue or restart: what a job does when a worker is lost; by default stop",
    "MX_KVSTORE_RAY_FOLDER": "where servers keep checkpoints; by default shared memory, as long as the job lasts",
    "MX_KVSTORE_RAY_CHECKPOINT": "seconds between two checkpoints of a server, by default 60",
    "MX_KVSTORE_TIMEOUT": "seconds that a distributed store waits for other processes, by default 300",
    "MX_KVSTORE_SHARED_MEMORY": "0: processes of one machine exchange values by messages, not in shared memory",
    "MXNET_KVSTORE_BIGARRAY_BOUND": "elements from which servers share an array, by default 1000000",
}

#: seconds
TIMEOUT = 300.0
CHECKPOINT = 60.0
#: after which a server that cannot be reached is lost
GIVEN_UP = 120.0
POLICIES = ("stop", "continue", "restart")


def number(name: str, default: float, least: float = 0.0) -> float:
    """A variable that is a number.

    Raises
    ------
    SettingError  it is none, or too small
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value >= least:
        raise SettingError(f"[{name}] expected a number of at least {least:g}, got {text!r}")
    return value


def whole(name: str, default: int, least: int = 0) -> int:
    """A variable that is a whole number; raises as `number`."""
    value = float(number(name, default, least))
    if not value.is_integer():
        raise SettingError(f"[{name}] expected a whole number, got {os.environ[name]!r}")
    return int(value)


def timeout() -> float:
    """Seconds that a wait for other processes may last."""
    return number("MX_KVSTORE_TIMEOUT", TIMEOUT, 0.1)


def checkpoint() -> float:
    """Seconds between two checkpoints of a server."""
    return number("MX_KVSTORE_RAY_CHECKPOINT", CHECKPOINT, 0.0)


def shared_memory() -> bool:
    """Whether workers and servers of one machine share memory."""
    return switch("MX_KVSTORE_SHARED_MEMORY", True)


def big_array_bound() -> int:
    """Elements from which an array is shared by all servers."""
    return whole("MXNET_KVSTORE_BIGARRAY_BOUND", 1_000_000, 1)


def on_loss() -> str:
    """What a job does when a worker is lost.

    Raises
    ------
    SettingError  the variable has another word
    """
    found = os.environ.get("MX_KVSTORE_RAY_ON_LOSS", "").strip().lower() or POLICIES[0]
    if found not in POLICIES:
        raise SettingError(f"[MX_KVSTORE_RAY_ON_LOSS] expected one of {', '.join(POLICIES)}, got {found!r}")
    return found


@dataclass(frozen=True)
class Place:
    """A worker's place in its job.

    Parameters
    ----------
    address : str
        Of the Ray cluster.
    job : str
        Namespace of the servers.
    rank : int
    start : int
        How often this worker was started before.
    workers, servers : int
        How many the job began with.
    """

    address: str
    job: str
    rank: int
    start: int
    workers: int
    servers: int

    def variables(self) -> dict[str, str]:
        """What tells a worker its place."""
        return {
            "MX_KV_RAY_ADDRESS": self.address,
            "MX_KV_RAY_JOB": self.job,
            "MX_KV_RAY_RANK": str(self.rank),
            "MX_KV_RAY_START": str(self.start),
            "MX_KV_RAY_WORKERS": str(self.workers),
            "MX_KV_RAY_SERVERS": str(self.servers),
            "DMLC_ROLE": "worker",
            "DMLC_WORKER_ID": str(self.rank),
            "DMLC_NUM_WORKER": str(self.workers),
            "DMLC_NUM_SERVER": str(self.servers),
        }


@dataclass(frozen=True)
class ServerPlace:
    """A server's place in its job, and what it is to do there.

    Parameters
    ----------
    number, servers : int
        Which of how many.
    workers : int
        How many the job begins with.
    on_loss : {"stop", "continue", "restart"}
    folder : path
        For its files. What an earlier process left there is where this one begins.
    timeout : float
        Seconds that an answer may wait for other workers.
    interval : float
        Seconds between two checkpoints.
    job : str
        By which a later job is told from a server that comes back.
    new_optimizer : bool
        Whether an optimizer of the workers takes the place of another one in files of an earlier job.
    """

    number: int
    servers: int
    workers: int
    on_loss: str
    folder: str
    timeout: float
    interval: float
    job: str
    new_optimizer: bool = False


def place() -> Place:
    """What the environment says.

    Raises
    ------
    NoJobError    nothing: no launcher has started the process
    SettingError  it contradicts itself
    """
    if not os.environ.get("MX_KV_RAY_ADDRESS"):
        raise NoJobError(
            "[kvstore.create] a distributed store on Ray needs servers and workers that a launcher has started, and "
            "this process was started by none; type `mx launch -n 2 -s 1 --engine ray python train.py`"
        )
    found = Place(
        os.environ["MX_KV_RAY_ADDRESS"],
        os.environ.get("MX_KV_RAY_JOB", "mx"),
        whole("MX_KV_RAY_RANK", 0),
        whole("MX_KV_RAY_START", 0),
        whole("MX_KV_RAY_WORKERS", 1, 1),
        whole("MX_KV_RAY_SERVERS", 1, 1),
    )
    if found.rank >= found.workers:
        raise SettingError(
            f"[MX_KV_RAY_RANK] expected less than MX_KV_RAY_WORKERS {found.workers}, got {found.rank}"
        )
    return found
