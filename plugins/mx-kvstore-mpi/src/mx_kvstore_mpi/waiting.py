# SPDX-License-Identifier: Apache-2.0
"""Waits of the communication thread: with a deadline, without using up the processor, ended by a failure of the job."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError
from mx_kvstore_mpi.faults import Fault

_log = logging.getLogger("mx.kvstore")

#: seconds after which a wait is told in the log
WARN = 10.0
#: questions without a pause, then seconds of the first pause and of the longest
_EAGER, _SHORT, _LONG = 50, 20e-6, 1e-3
#: seconds that messages of a process that has ended may still be under way
_LATE = 2.0


class Peers(Protocol):
    """What is known of the other processes. Threads: any."""

    def say(self, status: str) -> None:
        """What the others are told that this process does."""

    def statuses(self) -> Sequence[str]:
        """What each other process does."""

    def gone(self, among: Collection[int] | None = None) -> str:
        """Names of those of some workers, or of all, that have ended in good order; empty if there are none."""


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
        self.timeout = timeout
        self._peers = peers

    def until(
        self,
        ready: Callable[[], bool],
        what: Callable[[], str],
        since: float | None = None,
        needs: Callable[[], Collection[int] | None] = lambda: None,
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

        Raises
        ------
        PeerLostError     the job has failed, or a worker that is waited for has ended
        PeerTimeoutError  it took too long
        """
        for _ in range(_EAGER):
            if ready():
                return
            os.sched_yield()
        begun = time.monotonic() if since is None else since
        pause, warned, said = _SHORT, False, False
        gone_since: float | None = None
        while not ready():
            self.fault.check()
            time.sleep(pause)
            pause = min(1.5 * pause, _LONG)
            if pause < _LONG:
                continue
            now = time.monotonic()
            if not said:
                self._peers.say(f"waits: {what()}")
                said = True
            gone = self._peers.gone(needs())
            if not gone:
                gone_since = None
            else:
                gone_since = gone_since or now
                if now - gone_since > _LATE:
                    raise PeerLostError(
                        f"[KVStore] {gone} has ended its program, and this process waits: {what()}"
                    )
            if now - begun > WARN and not warned:
                warned = True
                _log.warning("waits for %.0f s: %s (%s)", now - begun, what(), self._others())
            if now - begun > self.timeout:
                raise PeerTimeoutError(
                    f"[KVStore] waited {self.timeout:g} s: {what()} ({self._others()}); MX_KVSTORE_TIMEOUT is the limit"
                )
        if said:
            self._peers.say("computes")

    def _others(self) -> str:
        return "; ".join(self._peers.statuses()) or "nothing is known of the other processes"
