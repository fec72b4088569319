# SPDX-License-Identifier: Apache-2.0
"""This process's part in its job: made with the first distributed store, ended with the program."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from mx_core import services
from mx_core.errors import MXNetError
from mx_core.forks import ForkSafeLock
from mx_core.lifecycle import interrupted
from mx_kvstore_mpi import mpi, settings
from mx_kvstore_mpi.errors import PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.links import Network
from mx_kvstore_mpi.membership import Membership
from mx_kvstore_mpi.settings import Place
from mx_kvstore_mpi.waiting import Waiter

#: seconds that the end of a program waits for its communication thread
_JOIN = 5.0
#: seconds that the news of a lost process may take
_NEWS = 3.0


class Exchange(Protocol):
    """What the communication thread runs."""

    @property
    def inside(self) -> float:
        """Since when it is where it cannot be asked, as inside of MPI (`time.monotonic()`); or 0."""

    def run(self, comm: Any) -> None:
        """Works until `stop`."""

    def stop(self) -> None:
        """Ends `run` once nothing waits any more; from any thread."""


class Peers:
    """What is known of the other processes; nothing where a process manager of MPI has started them. Threads: any."""

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership

    def say(self, status: str) -> None:
        """What the others are told that this process does."""
        if self._membership is not None:
            self._membership.say(status)

    def statuses(self) -> Sequence[str]:
        """What each other process does."""
        return [] if self._membership is None else self._membership.statuses()

    def refuse(self, text: str) -> None:
        """Fails the job in the other processes."""
        if self._membership is not None:
            self._membership.refuse(text)

    def gone(self, among: Collection[int] | None = None) -> Mapping[int, str]:
        """Those of some workers, or of all, that have ended in good order: their numbers and names."""
        if self._membership is None or not self._membership.left:
            return {}
        job = self._membership.job
        return {
            number: job.called(number)
            for number in sorted(self._membership.left)
            if number < job.workers and (among is None or number in among)
        }

    def miss(self, numbers: Collection[int], what: str) -> None:
        """Has the hub tell all how processes have ended that this one waits for."""
        if self._membership is not None:
            mine = self._membership.job.called(self._membership.number)
            self._membership.miss(numbers, f", and {mine} waits: {what}")


class World:
    """The job as this process sees it. Threads: any.

    Parameters
    ----------
    place : Place
    make : callable
        (world) -> what the communication thread runs.

    Raises
    ------
    MXNetError  the job cannot be joined; the message says why
    """

    def __init__(self, place: Place, make: Callable[[World], Exchange]) -> None:
        self.timeout = settings.timeout()
        self.process = os.getpid()
        self.membership = None if place.hub is None else Membership(place, self.timeout)
        self.fault = Fault() if self.membership is None else self.membership.fault
        self.fault.listen(self._tell_deadline)
        self.job = Job(1) if self.membership is None else self.membership.job
        self.number = 0 if self.membership is None else self.membership.number
        self.waiter = Waiter(self.fault, Peers(self.membership), self.timeout)
        self.ended = threading.Event()
        self._started = threading.Event()
        self._make = make
        self._exchange: Exchange | None = None
        self._meeting: socket.socket | None = None  # MPI has its number
        self._thread = threading.Thread(
            target=self._communicate, name="mx kvstore: communication", daemon=True
        )
        self._thread.start()
        try:
            self._wait_for_the_start()
        except BaseException:
            if self.membership is not None:
                self.membership.close()  # so that the others hear of it
            raise
        threading.Thread(target=self._look, name="mx kvstore: deadline", daemon=True).start()

    def _wait_for_the_start(self) -> None:
        end = time.monotonic() + self.timeout
        while not self._started.wait(0.1) and self.fault.error is None:
            if time.monotonic() > end:
                raise PeerTimeoutError(f"[KVStore] MPI did not start within {self.timeout:g} s")
        self.fault.check()

    def _tell_deadline(self, error: MXNetError) -> None:
        if self.membership is not None and isinstance(error, PeerTimeoutError):
            self.membership.give_up(str(error))

    @property
    def exchange(self) -> Any:
        """What the communication thread runs."""
        assert self._exchange is not None
        return self._exchange

    @property
    def together(self) -> bool:
        """Whether all processes may be on one machine."""
        return self.membership is None or self.membership.hosts == 1

    @property
    def network(self) -> Network | None:
        """How processes reach each other, where a hub knows."""
        return None if self.membership is None else self.membership.network

    @property
    def rank(self) -> int:
        """This process's number among those of its role."""
        return self.job.rank(self.number)

    def check_process(self) -> None:
        """Refuses a child of the process that joined the job."""
        if os.getpid() != self.process:
            raise MXNetError(
                f"[KVStore] process {os.getpid()} was forked from process {self.process}, which is the worker of the "
                "job; only that one can use the store"
            )

    # ---- the communication thread ----

    def _communicate(self) -> None:
        failure: MXNetError | None = None
        try:
            comm = self._join()
            self._exchange = self._make(self)
            self._started.set()
            self._exchange.run(comm)
            if self.fault.error is None:
                self._leave()
        except MXNetError as error:
            failure = error
        except BaseException as error:  # whatever it is, nobody may wait for this thread any more
            self._hear_first()
            failure = MXNetError(
                f"[KVStore] the communication of {self.job.called(self.number)} broke: {error!r}"
            )
        # Not where the failure is handled: there every copy of it would have it as its context.
        try:
            if failure is not None and self.fault.set(failure) and isinstance(failure, ProtocolError):
                self.waiter.peers.refuse(str(failure))  # so servers and the launcher hear it, too
        finally:
            self.ended.set()

    def _hear_first(self) -> None:
        """MPI fails at once when a peer dies, and the hub says a moment later which one it was."""
        limit = time.monotonic() + _NEWS
        while self.membership is not None and self.fault.error is None and time.monotonic() < limit:
            time.sleep(0.02)

    def _join(self) -> Any:
        """Starts MPI; the communicator of the processes of this role."""
        if self.membership is None:
            comm = mpi.start(None, 0, 0, 0)
            self.number = comm.Get_rank()
            self.job = Job(comm.Get_size())
        else:
            self._meeting = self.membership.meeting()
            comm = mpi.start(self._meeting, self.number, self.job.size, self.membership.hosts)
        return comm

    def _leave(self) -> None:
        """Waits until all processes end, however long the others go on: they may still need what MPI holds here.

        The hub's need not finalise MPI: that could wait for one that dies now.
        """
        if self.membership is None:
            mpi.finish()
        else:
            self.membership.leave(float("inf"))

    def _look(self) -> None:
        """Ends waits inside of MPI, which cannot be told of a deadline."""
        while not self.ended.wait(1.0):
            since = self.exchange.inside
            if since and time.monotonic() - since > self.timeout:
                self.fault.set(PeerTimeoutError(
                    f"[KVStore] a message to or from another process took longer than {self.timeout:g} s; "
                    "MX_KVSTORE_TIMEOUT is the limit"
                ))  # fmt: skip

    # ---- the end ----

    def close(self) -> None:
        """Ends the communication: in good order with all others, or at once after a failure."""
        if os.getpid() != self.process:
            return
        if interrupted() or _raised():  # the others need not wait until this one is killed
            self.fault.set(MXNetError("[KVStore] the program has failed"))
        if self.fault.error is None:
            drain = getattr(services.engine(), "drain", None)
            if drain is not None:
                drain(self.timeout)  # what was pushed is still to be sent
        if self._exchange is not None:
            self._exchange.stop()
        while not self.ended.wait(0.1):
            if self.fault.error is not None:
                self.ended.wait(_JOIN if not self.exchange.inside else 0.1)
                break
        if self.membership is not None:
            self.membership.close()


def _raised() -> bool:
    """Whether the program ends because of an exception that nobody caught."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return False
    return getattr(sys, "last_value", None) is not None


_lock = ForkSafeLock()
_world: World | None = None


def join(make: Callable[[World], Exchange]) -> World:
    """The process's world, which is made at the first call. Blocks until all processes are there.

    Raises
    ------
    NoJobError  no launcher has started this process
    MXNetError  the job has failed
    """
    global _world
    with _lock:
        if _world is None:
            _world = World(settings.place(), make)
        _world.check_process()
        _world.fault.check()
        return _world


def current() -> World | None:
    """The process's world, if there is one."""
    return _world


def close() -> None:
    """Leaves the job, if this process has joined one."""
    with contextlib.suppress(MXNetError):
        if _world is not None:
            _world.close()


def forget() -> None:
    """In a forked child: the job is the parent's."""
    if _world is not None and _world.membership is not None:
        _world.membership.forget()
