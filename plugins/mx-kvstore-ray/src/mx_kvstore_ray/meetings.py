# SPDX-License-Identifier: Apache-2.0
"""Where all workers meet on a server: barriers, and calls that begin or end with one."""

from __future__ import annotations

from typing import Any

from mx_kvstore_ray.agreement import Keys
from mx_kvstore_ray.errors import ProtocolError
from mx_kvstore_ray.rounds import Found
from mx_kvstore_ray.state import State
from mx_kvstore_ray.waits import Waits


class Meetings:
    """Meetings by number; a worker comes to one after the other. Threads: one, that of the event loop.

    Parameters
    ----------
    state : State
    waits : Waits
    keys : Keys
    """

    #: what meetings are among the places at which keys are compared
    PLACE = "barrier"

    def __init__(self, state: State, waits: Waits, keys: Keys) -> None:
        self._state, self._waits, self._keys = state, waits, keys
        #: to which each worker has come, and what it called
        self._arrived: dict[int, int] = {}
        self._called: dict[int, str] = {}

    def forget(self, rank: int) -> None:
        """A worker is gone, or begins anew."""
        self._arrived.pop(rank, None)
        self._called.pop(rank, None)

    async def meet(self, rank: int, told: dict[str, Any]) -> Found:
        """Waits until all workers have come to a meeting of this number.

        Raises
        ------
        ProtocolError  another worker has called something else, or has other keys
        """
        n, called = int(told["n"]), str(told["called"])
        if n > self._state.met:
            self._arrived[rank], self._called[rank] = n, called
            if self._state.members.starts[rank] == 0:  # one that was started anew may go on from other keys
                self._keys.come(self.PLACE, n, called, rank, int(told["keys"]))
            self._compare(n)
        self.complete()
        await self._waits.until(
            self._state.waiters, rank, lambda: self._state.met >= n, called,
            lambda: {each for each in self._state.members.active if self._arrived.get(each, 0) < n},
        )  # fmt: skip
        return {}, None

    def complete(self) -> None:
        """Ends a meeting to which all have come."""
        present = [self._arrived.get(rank, 0) for rank in self._state.members.active]
        if present and min(present) > self._state.met:
            self._keys.over(self.PLACE)
            self._state.change({"do": "met", "n": min(present)})

    def _compare(self, n: int) -> None:
        here = {rank: self._called[rank] for rank, at in sorted(self._arrived.items()) if at == n}
        if len(set(here.values())) > 1:
            said = "; ".join(f"worker {rank}: {called}" for rank, called in here.items())
            raise ProtocolError(
                f"[KVStore] workers do different things at the same place: {said}; all workers must call the same "
                "methods in the same order, with the same settings"
            )
