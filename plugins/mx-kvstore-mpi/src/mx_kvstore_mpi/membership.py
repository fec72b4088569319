# SPDX-License-Identifier: Apache-2.0
"""A process's side of the hub: joins the job, gives signs of life, hears who is lost.

A thread that needs no GIL gives them, so that a program which holds it for minutes, in a large file's `json.load` or in
C code, is not taken for one that is lost. The launcher gives none: it may be stopped for a while. Its end is the end of
the connection, and a network that is cut ends it, too, as nobody acknowledges what is sent.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Collection
from typing import Any

from mx_core.errors import MXNetError
from mx_kvstore_mpi import _native, tokens
from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.hub import BEAT, SILENCE
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.links import Network, own_address
from mx_kvstore_mpi.protocol import Channel, connect, framed
from mx_kvstore_mpi.settings import Place

#: seconds between attempts to reach a hub that is not there yet
_RETRY = 0.1


class Membership:
    """The connection of this process to its hub. Threads: any, once it is made.

    Blocks until all processes of the job are there.

    Parameters
    ----------
    place : Place
        With a hub.
    timeout : float
        Seconds to wait for the hub and for the others.

    Raises
    ------
    ProtocolError     the hub refuses this process
    PeerLostError     a process has ended before all were there
    PeerTimeoutError  the hub or a process did not come
    """

    def __init__(self, place: Place, timeout: float) -> None:
        assert place.hub is not None
        self._place = place
        self._channel, self._token = _reach(place, timeout)
        sock = self._channel.socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * SILENCE))
        self._finish = threading.Event()
        self._answered = threading.Event()
        self._statuses: list[str] = []
        self._stopped = False
        self._status = "computes"
        #: numbers of processes that have said that they end
        self.left: set[int] = set()
        #: whether this process has heard from the hub why the job fails, which tells it by itself
        self.told = False
        try:
            host = host_name()
            self._channel.send(
                {"kind": "member", "role": place.role, "rank": place.rank, "pid": os.getpid(), "host": host}
            )
            self._signs = _native.signs_begin(sock.fileno(), framed({}), BEAT)
        except BaseException:
            self._channel.close()
            raise
        try:
            start = self._started(time.monotonic() + timeout)
        except BaseException:
            self.close()
            raise
        self.number = int(start["start"])
        self.hosts = int(start["hosts"])
        self.job = Job(
            int(start["workers"]), int(start["servers"]), str(start["job"]), int(start["generation"])
        )
        self.fault = Fault(self.job.generation)
        self._thread = threading.Thread(target=self._watch, name="mx kvstore: membership", daemon=True)
        self._thread.start()

    def _send(self, message: dict[str, Any]) -> None:
        _native.signs_send(self._signs, framed(message))

    def _started(self, end: float) -> dict[str, Any]:
        """Waits until all are there."""
        while True:
            self._channel.socket.settimeout(max(0.01, min(BEAT, end - time.monotonic())))
            try:
                message = self._channel.receive()
            except TimeoutError:
                if time.monotonic() < end:
                    self._send({"status": "waits for the others to start"})
                    continue
                raise PeerTimeoutError(
                    "[KVStore] not all processes of the job came to the hub in time; MX_KVSTORE_TIMEOUT is the limit"
                ) from None
            if message is None:
                raise PeerLostError("[KVStore] the launcher of the job has ended")
            if "start" in message:
                return message
            if "refused" in message:
                raise ProtocolError(f"[KVStore] the hub refuses this process: {message['refused']}")
            if "lost" in message:
                raise PeerLostError(f"[KVStore] {message['lost']} before the job had begun")
            if time.monotonic() < end:
                self._send({"status": "waits for the others to start"})

    def meeting(self) -> socket.socket:
        """A connection on which the hub speaks PMI."""
        assert self._place.hub is not None
        channel = connect(self._place.hub, self._token)
        channel.send({"kind": "pmi"})
        answer = channel.receive()
        if answer is None or "ready" not in answer:
            raise ProtocolError(f"[KVStore] the hub refuses this process: {answer}")
        channel.socket.settimeout(None)
        return channel.socket

    @property
    def network(self) -> Network:
        """How this process reaches the others of its role."""
        assert self._place.hub is not None
        job = f"{self.job.name} {self.job.generation}"
        here = own_address(self._channel.socket.getsockname()[0])
        return Network(self._token, job, here, self._place.hub[0], self.hosts)

    # ---- while the job runs ----

    def say(self, status: str) -> None:
        """What the others are told that this process does, if they wait for it too long."""
        self._status = status

    def _watch(self) -> None:
        said = ""
        while not self._stopped:
            try:
                ready, _, _ = select.select([self._channel.socket], [], [], BEAT / 2)
                if self._status != said:
                    said = self._status
                    self._send({"status": said})
                if ready:
                    self._channel.socket.settimeout(SILENCE)
                    message = self._channel.receive()
                    if message is None:
                        self._check_sent()
                        self._lost("the launcher of the job has ended")
                        return
                    self._hear(message)
            except (OSError, ValueError, ProtocolError) as error:
                self._lost(f"the connection to the launcher of the job broke: {error}")
                return

    def _check_sent(self) -> None:
        """Raises what has broken the connection: the system tells it once, which may have been to who sends signs."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # then the other side has ended it
            self._send({})

    def _lost(self, what: str) -> None:
        if not self._stopped and not self._finish.is_set():
            self.fault.set(PeerLostError(f"[KVStore] {what} (generation {self.job.generation})"))

    def _hear(self, message: dict[str, Any]) -> None:
        if "statuses" in message:
            self._statuses = [str(text) for text in message["statuses"]]
            self._answered.set()
        if message.get("generation", self.job.generation) != self.job.generation:
            return
        if "lost" in message:
            text = f"[KVStore] {message['lost']} (generation {self.job.generation})"
            self._told(PeerLostError(text), message)
        if "wrong" in message:
            self._told(ProtocolError(str(message["wrong"])), message)
        if "left" in message:
            self.left.add(int(message["left"]))
        if "finish" in message or "go" in message:
            self._finish.set()

    def _told(self, error: MXNetError, message: dict[str, Any]) -> None:
        if self.fault.set(error, message.get("generation")):
            self.told = True

    def statuses(self, timeout: float = 2.0) -> list[str]:
        """What each other process does, as `worker 1 computes`; empty if the hub does not answer in time."""
        self._answered.clear()
        try:
            self._send({"ask": True})
        except OSError:
            return []
        return self._statuses if self._answered.wait(timeout) else []

    def refuse(self, text: str) -> None:
        """Fails the job with a `ProtocolError`, in all processes."""
        with contextlib.suppress(OSError):  # then the hub's loss is the failure
            self._send({"wrong": text})

    def give_up(self, text: str) -> None:
        """Says why this process fails, which hears no more of what it waits for: the launcher tells it at the end."""
        with contextlib.suppress(OSError):
            self._send({"gave up": text})

    def miss(self, numbers: Collection[int], what: str) -> None:
        """Says that processes that have ended their programs in good order are missed: these need not stay any more.

        The hub then tells all processes how each has ended.

        Parameters
        ----------
        what : str
            What follows the status in the message, such as `, and worker 0 waits: the push of key 'a'`.
        """
        with contextlib.suppress(OSError):
            self._send({"misses": sorted(numbers), "what": what})

    # ---- the end ----

    def leave(self, timeout: float, status: str = "has ended its program") -> bool:
        """Says that this process may end, and waits until all do; False if one was lost, or time ran out."""
        self._status = status
        try:
            self._send({"status": self._status, "leaving": True})
        except OSError:
            return False
        end = time.monotonic() + timeout
        while not self._finish.wait(0.05):
            if self.fault.error is not None or time.monotonic() > end:
                return False
        return True

    def close(self) -> None:
        """Ends the connection."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._channel.socket.shutdown(socket.SHUT_RDWR)
        _native.signs_end(self._signs)  # before another connection gets the number of this one
        self._channel.close()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's, so that its end is noticed when the parent ends."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._channel.socket.close()


def host_name() -> str:
    """A name that processes of one machine have in common: its boot, and the namespace of its network names."""
    name = socket.gethostname()
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        name += f" {file.read().strip()[:8]}"
    return name


def _reach(place: Place, timeout: float) -> tuple[Channel, str]:
    """Connects to the hub, which may come later than this process; also the job's secret."""
    assert place.hub is not None
    end = time.monotonic() + timeout
    while True:
        try:
            token = place.token or tokens.find(place.hub[1])
            return connect(place.hub, token), token
        except (OSError, ProtocolError) as error:
            if isinstance(error, ProtocolError) and place.token:
                raise
            if time.monotonic() > end:  # else the secret may be one that a job before has left
                where = f"{place.hub[0]}:{place.hub[1]}"
                text = f"[KVStore] no hub of the job at {where} within {timeout:g} s: {error}"
                raise PeerTimeoutError(text) from error
            time.sleep(_RETRY)
