# SPDX-License-Identifier: Apache-2.0
"""Waits of the communication thread: with a deadline, without using up the processor, ended by a failure of the job."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.faults import Fault

_log = logging.getLogger("mx.kvstore")

#: seconds after which a wait is told in the log
WARN = 10.0
#: questions without a pause, then seconds of the first pause and of the longest
_EAGER, _SHORT, _LONG = 50, 20e-6, 1e-3
#: seconds of the longest pause while bytes are under way: MPI sends only what a socket takes each time it is asked
_FLOWING = 50e-6
#: seconds after which a processor that was given to others comes back late, and for which it is kept then
_TAKEN, _KEPT = 5e-4, 0.1
#: seconds between two looks at what the other processes do
_LOOK = 0.01
#: seconds that messages of a process that has ended may still be under way, and that the news of its status may take
LATE, NEWS = 2.0, 5.0


class Peers(Protocol):
    """What is known of the other processes. Threads: any."""

    def say(self, status: str) -> None:
        """What the others are told that this process does."""

    def statuses(self) -> Sequence[str]:
        """What each other process does."""

    def gone(self, among: Collection[int] | None = None) -> Mapping[int, str]:
        """Those of some workers, or of all, that have ended in good order: their numbers and names."""

    def miss(self, numbers: Collection[int], what: str) -> None:
        """Has the hub tell all how processes have ended that this one waits for."""

    def refuse(self, text: str) -> None:
        """Fails the job in the other processes."""


class Yields:
    """Gives the processor to others between two questions, as long as it comes back at once. Threads: one.

    Where others want it for themselves, who yields waits for the whole of their time, and who sleeps for some
    microseconds is woken before them.
    """

    def __init__(self) -> None:
        self._kept_until = 0.0

    def give_way(self) -> bool:
        """False if the caller had better sleep."""
        begin = time.monotonic()
        if begin < self._kept_until:
            return False
        os.sched_yield()
        if time.monotonic() - begin > _TAKEN:
            self._kept_until = begin + _KEPT
        return True


class Waiter:
    """Polls for what other processes do. Threads: one, that of communication.

    Parameters
    ----------
    fault : Fault
        Ends every wait.
    peers : Peers
    timeout : float
        Seconds that a wait may last.
    """

    def __init__(self, fault: Fault, peers: Peers, timeout: float) -> None:
        self.fault = fault
        self._yields = Yields()
        self.timeout = timeout
        self.peers = peers

    def refuse(self, text: str) -> None:
        """Fails the job with a `ProtocolError`, in all processes. Threads: any."""
        self.fault.set(ProtocolError(text))
        self.peers.refuse(text)

    def until(
        self,
        ready: Callable[[], bool],
        what: Callable[[], str],
        since: float | None = None,
        needs: Callable[[], Collection[int] | None] = lambda: None,
        flowing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Returns when `ready()` is true.

        Parameters
        ----------
        what : callable
            What is waited for, for messages.
        since : float, optional
            When the wait began (`time.monotonic()`), by default now.
        needs : callable
            Numbers of the workers without which it cannot end; None, the default, stands for all of them.
        flowing : callable
            Whether bytes are under way, so that it is asked more often.

        Raises
        ------
        PeerLostError     the job has failed, or a worker that is waited for has ended
        PeerTimeoutError  it took too long
        """
        for _ in range(_EAGER):
            if ready():
                return
            if not self._yields.give_way():
                break
        wait = Wait(self, what, time.monotonic() if since is None else since, needs)
        pause, looked = _SHORT, time.monotonic()
        while not ready():
            self.fault.check()
            time.sleep(pause)
            pause = min(1.5 * pause, _FLOWING if flowing() else _LONG)
            now = time.monotonic()
            if now - looked > _LOOK:
                looked = now
                wait.look()
        wait.end()

    def begin(self, what: Callable[[], str]) -> Wait:
        """A wait for all workers that is done by other means, such as sleeping until something comes."""
        return Wait(self, what, time.monotonic(), lambda: None)

    def others(self) -> str:
        """What the other processes do, for messages."""
        return "; ".join(self.peers.statuses()) or "nothing is known of the other processes"


class Wait:
    """A wait that lasts. Threads: one.

    Parameters
    ----------
    waiter : Waiter
    what, since, needs
        As of `Waiter.until`.
    """

    def __init__(
        self,
        waiter: Waiter,
        what: Callable[[], str],
        since: float,
        needs: Callable[[], Collection[int] | None],
    ) -> None:
        self._waiter = waiter
        self._what = what
        self._needs = needs
        self._begun = since
        self._warned = self._said = self._missed = False
        self._gone_since: float | None = None

    def look(self) -> None:
        """Says once that this process waits, warns after a while, and raises as `Waiter.until`."""
        waiter, now = self._waiter, time.monotonic()
        waiter.fault.check()
        if not self._said:
            waiter.peers.say(f"waits: {self._what()}")
            self._said = True
        gone = waiter.peers.gone(self._needs())
        if not gone:
            self._gone_since = None
        else:
            self._gone_since = self._gone_since or now
            since = now - self._gone_since
            if since > LATE and not self._missed:
                self._missed = True
                waiter.peers.miss(gone, self._what())
            if since > LATE + NEWS:
                names = ", ".join(gone.values())
                raise PeerLostError(
                    f"[KVStore] {names} has ended its program, and this process waits: {self._what()}"
                )
        waited = now - self._begun
        if waited > WARN and not self._warned:
            self._warned = True
            _log.warning("waits for %.0f s: %s (%s)", waited, self._what(), waiter.others())
        if waited > waiter.timeout:
            raise PeerTimeoutError(
                f"[KVStore] waited {waiter.timeout:g} s: {self._what()} ({waiter.others()}); MX_KVSTORE_TIMEOUT is the "
                "limit"
            )

    def end(self) -> None:
        """What was waited for is there."""
        if self._said:
            self._waiter.peers.say("computes")
