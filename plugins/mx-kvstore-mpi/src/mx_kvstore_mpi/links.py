# SPDX-License-Identifier: Apache-2.0
"""Connections of workers to each other, over which sums pass between hosts that have only TCP.

MPI moves messages between hosts by whatever they have. Over TCP it moves what is asked for, each time it is asked, by
the thread that asks. `mx_kvstore.exchange.Links` does all of an exchange by itself: it fills and empties sockets while
it adds. Both sides of a connection prove that they know the job's secret, as at the hub.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError, SettingError
from mx_kvstore.arrays import Values
from mx_kvstore.exchange import Links
from mx_kvstore_mpi import settings
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.protocol import Channel, accept, connect
from mx_kvstore_mpi.reduction import bytes_of
from mx_kvstore_mpi.shared import agreed

_log = logging.getLogger("mx.kvstore")

#: seconds in which all connections must be there
CONNECT = 30.0
#: workers of a sum, or hosts, up to which each is connected to all others
MOST = 64
#: where Linux lists devices that MPI moves messages by without TCP: InfiniBand, RoCE, EFA, Omni-Path; Slingshot
_FAST = ("/sys/class/infiniband", "/sys/class/cxi")
#: seconds after which a listener that cannot accept tries again
_AGAIN = 0.05
#: what a connection is for
_USES = ("terms", "sums")
#: bytes of a text with a worker's address and port
_ADDRESS = 64
#: asks Linux for the address of an interface; where that is in the answer
_SIOCGIFADDR, _ANSWER = 0x8915, slice(20, 24)


@dataclass(frozen=True)
class Network:
    """How workers reach each other.

    Parameters
    ----------
    token : str
        The job's secret.
    job : str
        Name of the job and of this start of it.
    address : str
        Of this host, where others reach it.
    hub : str
        The hub's host, as this process reaches it.
    hosts : int
        Over how many machines the job's processes are spread.
    """

    token: str
    job: str
    address: str
    hub: str
    hosts: int


def own_address(towards_hub: str) -> str:
    """This host's address for other workers: that of the interface that was chosen, or the one on the way to the hub.

    Raises
    ------
    SettingError  this host has no such interface, or it has no IPv4 address
    """
    name = settings.interface()
    if not name:
        return towards_hub
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
        except OSError as error:
            names = ", ".join(each for _, each in socket.if_nameindex())
            raise SettingError(
                f"[MX_KVSTORE_INTERFACE] expected an interface with an IPv4 address, one of {names}, got {name!r}: "
                f"{error.strerror}"
            ) from None
    return socket.inet_ntoa(answer[_ANSWER])


def wanted(network: Network | None) -> bool:
    """Whether this worker would have connections: as MX_KVSTORE_TRANSPORT says, else between hosts with TCP alone."""
    if network is None:
        return False
    chosen = settings.transport()
    if chosen:
        return chosen == "tcp"
    return network.hosts > 1 and not any(os.path.isdir(each) and os.listdir(each) for each in _FAST)


def linked(comm: Any, wait: Callable[[Any], object], network: Network | None) -> Links | None:
    """Connections between all workers of a communicator; None if one of them would not have any. All of them call it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of workers.
    wait : callable
        (request of MPI) -> None; returns when it is complete.
    network : Network, optional
    """
    rank, workers = comm.Get_rank(), comm.Get_size()
    if not agreed(comm, wait, 1 < workers <= MOST and wanted(network)):
        return None
    assert network is not None
    with contextlib.ExitStack() as stack:
        found: dict[tuple[int, str], Channel] = {}
        meeting: _Meeting | None = None
        try:
            meeting = stack.enter_context(_Meeting(network, rank, workers))
        except OSError as error:
            _log.warning("cannot listen for other workers, so MPI is used: %s", error)
        row = b"" if meeting is None else f"{network.address} {meeting.port}".encode()
        rows = np.zeros((workers, _ADDRESS), np.uint8)
        wait(comm.Iallgather(np.frombuffer(row.ljust(_ADDRESS), np.uint8), rows))
        addresses = [bytes(each).decode().split() for each in rows]
        if meeting is not None and all(addresses):
            try:
                found = meeting.connections(addresses)
            except (OSError, ProtocolError) as error:
                _log.warning("workers are not connected to each other, so MPI is used: %s", error)
        complete = len(found) == len(_USES) * (workers - 1)
        if agreed(comm, wait, complete):
            return _links(found, rank, workers)
        for channel in found.values():
            channel.close()
        return None


def _links(found: dict[tuple[int, str], Channel], rank: int, workers: int) -> Links:
    files = {which: channel.socket.detach() for which, channel in found.items()}  # they are the links' now
    try:
        return Links(
            [(files.get((each, "terms"), -1), files.get((each, "sums"), -1)) for each in range(workers)], rank
        )
    except BaseException:
        for file in files.values():
            os.close(file)
        raise


class _Meeting:
    """Where workers of higher rank connect to this one, which connects to those of lower rank. Threads: one.

    Its end closes what nobody has taken.
    """

    def __init__(self, network: Network, rank: int, workers: int) -> None:
        self._network, self._rank, self._workers = network, rank, workers
        here = network.address
        # Other hosts do not reach it there.
        everywhere = network.hosts > 1 and _is_loopback(here) and not settings.interface()
        both = everywhere and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both or ":" in here else socket.AF_INET
        self._listener = socket.create_server(
            ("" if everywhere else here, 0), family=family, backlog=len(_USES) * workers, dualstack_ipv6=both
        )
        self.port: int = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._found: dict[tuple[int, str], Channel] = {}
        self._ended = False

    def __enter__(self) -> _Meeting:
        threading.Thread(target=self._accept, name="mx kvstore: links", daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            left, self._found = list(self._found.values()), {}
        for channel in left:
            channel.close()

    def connections(self, addresses: Sequence[Sequence[str]]) -> dict[tuple[int, str], Channel]:
        """By rank and use; they are the caller's. Blocks until all are there.

        Raises
        ------
        OSError, ProtocolError  not all are, in time
        """
        end = time.monotonic() + CONNECT
        for other in range(self._rank):
            host, port = addresses[other]
            host = self._network.hub if _is_loopback(host) else host
            for use in _USES:
                channel = connect((host, int(port)), self._network.token, max(0.1, end - time.monotonic()))
                channel.send({"kind": use, "rank": self._rank, "job": self._network.job})
                with self._changed:
                    self._found[other, use] = channel
        count = len(_USES) * (self._workers - 1)
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self._found) == count, max(0.0, end - time.monotonic())
            ):
                missing = sorted({other for other in range(self._workers) if other != self._rank}
                                 - {other for other, _ in self._found})  # fmt: skip
                raise TimeoutError(
                    f"workers {missing} did not connect to worker {self._rank} within {CONNECT:g} s"
                )
            found, self._found = self._found, {}
            return found

    def _accept(self) -> None:
        while not self._ended:
            try:
                sock, _ = self._listener.accept()
            except (
                OSError
            ):  # the end; or one that has gone again, or too many open files, which need not last
                time.sleep(_AGAIN)
                continue
            try:
                threading.Thread(
                    target=self._welcome, args=(sock,), name="mx kvstore: link", daemon=True
                ).start()
            except RuntimeError:  # no more threads
                sock.close()

    def _welcome(self, sock: socket.socket) -> None:
        """Takes a connection of a worker of this job; ends any other."""
        try:
            channel = accept(sock, self._network.token)
            hello = channel.receive() or {}
        except (OSError, ProtocolError):
            sock.close()
            return
        rank, use = hello.get("rank"), hello.get("kind")
        ours = hello.get("job") == self._network.job and use in _USES
        with self._changed:
            if (
                ours
                and not self._ended
                and isinstance(rank, int)
                and self._rank < rank < self._workers
                and (rank, use) not in self._found
            ):
                self._found[rank, str(use)] = channel
                self._changed.notify_all()
                return
        channel.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LinkedSums:
    """Sums of the leaders of hosts, as those of `Summation`, in the order of their hosts. Threads: one.

    Parameters
    ----------
    links : Links
    check : callable
        Raises the failure of the job, if there is one.
    """

    def __init__(self, links: Links, check: Callable[[], None]) -> None:
        self.links = links
        self._check = check

    def alone(self, send: Values, receive: Values) -> None:
        """Sums one array; blocks until all do."""
        self._did(self.links.sum(dtypes.code(send.dtype), [bytes_of(send)], [bytes_of(receive)]))

    def packed(self, given: Values, summed: Values) -> None:
        """Sums several small arrays that are one behind the other; blocks until all do."""
        self.alone(given, summed)

    def gathered(self, rows: Values, counts: Sequence[int]) -> None:
        """Has all have all rows, of which each gives so many, in the order of ranks; blocks until all do."""
        roots = [place for place, count in enumerate(counts) for _ in range(count)]
        self._did(self.links.give(roots, [bytes_of(row) for row in rows]))

    def _did(self, complete: bool) -> None:
        if complete:
            return
        self._check()
        if self.links.broken:
            raise ConnectionError(self.links.broken)  # who is lost the hub knows
        raise MXNetError("[KVStore] the connections to other hosts were stopped")
