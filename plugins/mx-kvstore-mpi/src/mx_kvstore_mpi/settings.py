# SPDX-License-Identifier: Apache-2.0
"""What the environment says of the job that a process belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mx_core.environment import switch
from mx_core.errors import SettingError
from mx_kvstore_mpi.errors import NoJobError

#: variables that this package reads, each with a sentence
VARIABLES: Mapping[str, str] = {
    "MX_KV_HUB": "host:port where the processes of a distributed job meet; set by `mx launch`",
    "MX_KV_TOKEN": "secret of a distributed job, which all its processes know; set by `mx launch`",
    "MX_KV_ROLE": "worker or server; set by `mx launch`",
    "MX_KV_RANK": "number of the process among those of its role; set by `mx launch`",
    "MX_KVSTORE_TIMEOUT": "seconds that a distributed store waits for other processes, by default 300",
    "MX_KVSTORE_SHARED_MEMORY": "0: workers of one machine exchange sums by MPI instead of memory that they share",
    "MX_KVSTORE_TRANSPORT": "tcp or mpi: how sums pass between hosts; by default MPI where a host has a faster network "
    "than TCP. With tcp also between workers of one machine that share no memory",
    "MX_KVSTORE_INTERFACE": "name of the network interface, such as eth1, by which workers of several hosts are "
    "connected to each other; by default that of the way to the launcher",
    "DMLC_INTERFACE": "MXNet's name of MX_KVSTORE_INTERFACE, if that is not set",
    "MXNET_KVSTORE_BIGARRAY_BOUND": "elements from which servers share an array, by default 1000000",
    "MXNET_KVSTORE_SLICE_THRESHOLD": "elements of the slices in which values travel to servers and back, by default "
    "1000000, or 40000 with DMLC_PS_VAN_TYPE=p3; the same for all workers",
    "DMLC_PS_VAN_TYPE": "p3: values travel to servers in small slices; `mx launch --p3` sets it",
}

#: seconds
TIMEOUT = 300.0
#: what MXNet's launcher sets, and mx launch, too
_DMLC = ("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")
#: what process managers of MPI set for each process
_MPI = ("PMI_RANK", "PMI_FD", "PMI_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


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
    value = number(name, default, least)
    if not float(value).is_integer():
        raise SettingError(f"[{name}] expected a whole number, got {os.environ[name]!r}")
    return int(value)


def timeout() -> float:
    """Seconds that a wait for other processes may last."""
    return number("MX_KVSTORE_TIMEOUT", TIMEOUT, 0.1)


def shared_memory() -> bool:
    """Whether workers of one machine share memory."""
    return switch("MX_KVSTORE_SHARED_MEMORY", True)


def transport() -> str:
    """`tcp` or `mpi`, or nothing where it is not said; raises SettingError."""
    text = os.environ.get("MX_KVSTORE_TRANSPORT", "").strip()
    if text not in ("", "tcp", "mpi"):
        raise SettingError(f"[MX_KVSTORE_TRANSPORT] expected tcp or mpi, got {text!r}")
    return text


def check() -> None:
    """Reads what is used later, so that a wrong one is an error at once; raises SettingError."""
    for read in (timeout, shared_memory, transport, big_array_bound, slice_threshold):
        read()


def interface() -> str:
    """Name of the network interface by which workers are connected to each other, or nothing where it is not said."""
    return (os.environ.get("MX_KVSTORE_INTERFACE") or os.environ.get("DMLC_INTERFACE") or "").strip()


def big_array_bound() -> int:
    """Elements from which an array is shared by all servers."""
    return whole("MXNET_KVSTORE_BIGARRAY_BOUND", 1_000_000, 1)


def slice_threshold() -> int:
    """Elements of the slices in which values travel to servers and back."""
    small = os.environ.get("DMLC_PS_VAN_TYPE", "").strip() == "p3"
    return whole("MXNET_KVSTORE_SLICE_THRESHOLD", 40_000 if small else 1_000_000, 1)


@dataclass(frozen=True)
class Place:
    """Where a process finds its job.

    Parameters
    ----------
    hub : tuple of str and int, optional
        Without one, a process manager of MPI has started the process.
    token : str
    role : str
        `worker`, `server` or `scheduler`.
    rank : int, optional
        None lets the hub choose.
    workers, servers : int
        Of the whole job, where the environment says so; else 0.
    """

    hub: tuple[str, int] | None
    token: str = ""
    role: str = "worker"
    rank: int | None = None
    workers: int = 0
    servers: int = 0


def address(text: str, name: str) -> tuple[str, int]:
    """`host:port` as its parts; raises SettingError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"[{name}] expected host:port, got {text!r}")
    return host.strip("[]"), int(port)


def place() -> Place:
    """What the environment says. A variable that is empty is one that is not set.

    Raises
    ------
    NoJobError    nothing: no launcher has started the process
    SettingError  it contradicts itself
    """
    role = os.environ.get("MX_KV_ROLE") or "worker"
    if os.environ.get("MX_KV_HUB"):
        if role not in ("worker", "server"):
            raise SettingError(f"[MX_KV_ROLE] expected worker or server, got {role!r}")
        rank = whole("MX_KV_RANK", -1, -1)
        hub = address(os.environ["MX_KV_HUB"], "MX_KV_HUB")
        return Place(hub, os.environ.get("MX_KV_TOKEN", ""), role, None if rank < 0 else rank)
    missing = [name for name in _DMLC if not os.environ.get(name)]
    if not missing:
        return _of_dmlc()
    if any(os.environ.get(name) for name in _MPI):
        return Place(None)
    if os.environ.get("DMLC_ROLE"):
        raise SettingError(
            f"[DMLC_ROLE] MXNet's launcher, which sets it, also sets {', '.join(_DMLC[1:])}; missing: "
            f"{', '.join(missing)}"
        )
    raise NoJobError(
        "[kvstore.create] a distributed store needs processes that a launcher has started, and this one was started "
        "by none; type `mx launch -n 2 python train.py`, or `mpiexec -n 2 python train.py`"
    )


def _of_dmlc() -> Place:
    role = os.environ["DMLC_ROLE"]
    if role not in ("worker", "server", "scheduler"):
        raise SettingError(f"[DMLC_ROLE] expected worker, server or scheduler, got {role!r}")
    port = whole("DMLC_PS_ROOT_PORT", 0)
    rank = whole("DMLC_WORKER_ID", -1, -1) if role == "worker" else -1
    return Place(
        (os.environ["DMLC_PS_ROOT_URI"], port), os.environ.get("MX_KV_TOKEN", ""), role,
        None if rank < 0 else rank, whole("DMLC_NUM_WORKER", 1, 1), whole("DMLC_NUM_SERVER", 0),
    )  # fmt: skip
