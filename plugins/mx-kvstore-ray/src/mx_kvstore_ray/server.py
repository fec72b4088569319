# SPDX-License-Identifier: Apache-2.0
"""A parameter server: answers the requests of workers and of the launcher, outlives its process.

Each push is stamped with the worker, how often it was started, and the number of the push among those of its key. A
push that counts already is answered, and not counted again. So whoever got no answer asks again. A change is in a file
before it counts, and it counts before it is answered.

It knows nothing of Ray: an actor calls `answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_engine.profiler.told import run_here
from mx_kvstore.updater import updater_for
from mx_kvstore_ray.agreement import Keys, Optimizers, check_goes_on
from mx_kvstore_ray.described import made
from mx_kvstore_ray.errors import KINDS, LASTING, PeerLostError, ProtocolError
from mx_kvstore_ray.meetings import Meetings
from mx_kvstore_ray.messages import Bytes, check_dense
from mx_kvstore_ray.rounds import Found, Rounds
from mx_kvstore_ray.settings import ServerPlace
from mx_kvstore_ray.state import State
from mx_kvstore_ray.values import Value
from mx_kvstore_ray.waits import Waits

#: rank of a worker, and how often it was started before
Stamp = tuple[int, int]
#: name and text of an error, or None; JSON values; bytes
Answer = tuple[tuple[str, str] | None, dict[str, Any], Bytes | None]


class Server:
    """What a server does. Threads: one, that of its event loop.

    Parameters
    ----------
    place : ServerPlace

    Raises
    ------
    FileFormatError  the latest checkpoint is damaged
    MXNetError       another process has the folder, or it is of a job with another number of servers
    """

    def __init__(self, place: ServerPlace) -> None:
        self._place = place
        self._state = State(place)
        self._waits = Waits(
            place.timeout, self._check_of, lambda: self._state.members.ended, lambda: self._state.members.lost
        )
        self._optimizers, self._keys = Optimizers(), Keys()
        self._rounds = Rounds(self._state, self._waits, self._keys)
        self._meetings = Meetings(self._state, self._waits, self._keys)

    def close(self) -> None:
        """Closes the files; they stay."""
        self._state.close()

    # ---- requests ----

    async def answer(
        self, command: str, stamp: Stamp | None, told: dict[str, Any], data: Bytes | None
    ) -> Answer:
        """Answers a request; what is wrong is in the answer.

        Parameters
        ----------
        command : str
            One of a closed set.
        stamp : tuple, optional
            Of a worker; None of the launcher.
        told : dict
            JSON values.
        data : numpy array of uint8, optional
        """
        try:
            self._check(stamp)
            commands = _OF_WORKERS if stamp is not None else _OF_LAUNCHERS
            if command not in commands:
                raise ProtocolError(f"[KVStore server] unknown command {command!r}")
            rank = -1 if stamp is None else stamp[0]
            found = commands[command](self, rank, told, np.empty(0, np.uint8) if data is None else data)
            if asyncio.iscoroutine(found):
                found = await self._checked(stamp, found)
            answer: Found = found
            self._state.tidy()
            return None, *answer
        except MXNetError as error:
            return self._refused(error, stamp), {}, None

    def _refused(self, error: MXNetError, stamp: Stamp | None) -> tuple[str, str]:
        """The name and text of an error; one that ends the job is the same for all workers."""
        kind = type(error).__name__
        found = (kind if kind in KINDS else "MXNetError"), str(error)
        if stamp is None or not self._is_member(stamp) or not self._ends_the_job(type(error)):
            return found
        self._fail(*found)
        return self._state.fault or found

    async def _checked(self, stamp: Stamp | None, found: Any) -> Any:
        answer = await found
        self._check(stamp)
        return answer

    # ---- members ----

    def _is_member(self, stamp: Stamp) -> bool:
        rank, start = stamp
        members = self._state.members
        return members.starts.get(rank) == start and rank not in members.lost

    def _check_of(self, rank: int) -> Callable[[], None]:
        stamp = (rank, self._state.members.starts.get(rank, 0))
        return lambda: self._check(stamp)

    def _check(self, stamp: Stamp | None) -> None:
        """Raises the failure of the job; refuses a worker that another has replaced."""
        if stamp is None:
            return
        if self._state.fault is not None:
            kind, why = self._state.fault
            raise KINDS[kind](why)
        if not self._is_member(stamp):
            raise PeerLostError(
                f"[KVStore] worker {stamp[0]} (start {stamp[1]}) was taken for lost, and the job goes on without it"
            )

    def _ends_the_job(self, kind: type[MXNetError]) -> bool:
        """Whether an error is one of all workers; others may go on without one that waits in vain."""
        return issubclass(kind, ProtocolError if self._state.on_loss != "stop" else LASTING)

    def _fail(self, kind: str, why: str) -> None:
        if self._state.fault is None:
            self._state.change({"do": "fail", "kind": kind, "why": why})

    def _hear_failure(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """A worker has found a failure, at another server or by itself."""
        kind = KINDS.get(told["kind"], MXNetError)
        if self._ends_the_job(kind):
            self._fail(kind.__name__, str(told["why"]))
        return {}, None

    def _join(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """A worker is there, or the launcher asks whether the server is."""
        if rank >= 0 and self._state.servers is None:
            self._state.change({"do": "begin", "servers": self._place.servers})
        return {}, None

    def _ended(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """The launcher says that a worker has ended in good order."""
        if told["rank"] not in self._state.members.ended:
            self._state.change({"do": "ended", "rank": told["rank"]})
            self._keys.forget(told["rank"])
            self._go_on()
        return {}, None

    def _lose(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """The launcher says that a worker is lost, and what is done about it; it hears of the job's failure."""
        lost, start, members = told["rank"], told["start"], self._state.members
        if told["then"] == "stop":
            self._fail(PeerLostError.__name__, told["why"])
        elif members.starts[lost] == start and lost in members.active:
            self._state.change({"do": "lost", "rank": lost, "start": start, "then": told["then"]})
            for each in (self._keys, self._rounds, self._meetings):
                each.forget(lost)
            self._go_on()
        return {"fault": self._state.fault and self._state.fault[1]}, None

    def _go_on(self) -> None:
        """After a change of members: what waited for one that is gone is complete, or fails."""
        try:
            self._rounds.complete(self._state.values.values())
            self._meetings.complete()
        except ProtocolError as error:
            self._fail(ProtocolError.__name__, str(error))
        self._state.wake_all()

    # ---- what workers do alike ----

    def _push(self, rank: int, told: dict[str, Any], data: Bytes) -> Any:
        return self._rounds.push(rank, told, data)

    def _push_at_once(self, rank: int, told: dict[str, Any], data: Bytes) -> Any:
        return self._rounds.push_at_once(rank, told, data)

    def _barrier(self, rank: int, told: dict[str, Any], data: Bytes) -> Any:
        return self._meetings.meet(rank, told)

    def _tell_keys(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """A worker says which keys it has initialised since it last said so."""
        if self._state.members.starts[rank] == 0:  # one that was started anew may go on from other keys
            called = {(store, key): n for store, key, n in told["pushes"]} | {Meetings.PLACE: told["met"]}
            self._keys.tell(rank, int(told["begin"]), told["names"], called)
        return {}, None

    def _tell_waits(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Who waits here, what for, and who is missing."""
        return {"waits": list(self._waits.told().items())}, None

    # ---- values ----

    def _init(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """The first value of worker 0, unless the key has one; answers with the present one."""
        check_dense(rank, told)
        if (told["store"], told["key"]) not in self._state.values:
            self._state.begin(
                {n: told[n] for n in ("store", "key", "shape", "code", "whole") if n in told}, data
            )
        value = self._state.value(told)
        value.check_declared(rank, told)
        return self._present(value)

    async def _pull(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """The present value, once worker 0 has given the first."""
        place, what = (told["store"], told["key"]), f"the first value of key {told['key']!r}"
        values = self._state.values
        if place not in values:
            expected = self._state.expected.setdefault(place, [])
            await self._waits.until(expected, rank, lambda: place in values, what, lambda: {0} - {rank})
        values[place].check_declared(rank, told)
        return self._present(values[place])

    def _present(self, value: Value) -> Found:
        found = {"rounds": value.rounds}
        return found, value.stored.view(np.uint8).copy()  # it may change before the answer has left

    def _counted(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """How many pushes of each key of a store count."""
        found = [value for (store, _), value in self._state.values.items() if store == told["store"]]
        rounds = [max(value.rounds, value.applied.get(rank, 0)) for value in found]
        return {"rounds": rounds, "met": self._state.met}, None

    # ---- the optimizer ----

    def _optimizer(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Runs an optimizer of worker 0 from now on, unless this is a repetition; compares those of others."""
        if self._state.members.starts[rank] == 0:  # one that was started anew may go on from other numbers
            self._optimizers.compare(rank, told)
        store = self._state.store(told["store"])
        if rank == 0 and told["n"] > store.optimizers:
            updater_for(made(told["optimizer"]))  # whose errors are the worker's
            if not self._place.new_optimizer:
                check_goes_on(store.given[store.optimizers :], told["optimizer"], self._state.folder)
            self._state.change({"do": "optimizer", "store": told["store"], "optimizer": told["optimizer"]})
        return {}, None

    def _updater(self, told: dict[str, Any]) -> Any:
        updater = self._state.store(told["store"]).updater
        if updater is None:
            raise MXNetError("no optimizer is set; call set_optimizer first")
        return updater

    def _save(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """The states of the optimizer."""
        states = bytes(self._updater(told).get_states(bool(told["dump"])))
        return {}, np.frombuffer(states, np.uint8)

    def _load(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Takes states of the optimizer, unless this is a repetition."""
        updater = self._updater(told)
        if told["n"] > self._state.store(told["store"]).loads:
            check = getattr(updater, "check_states", None)
            if check is not None:
                check(bytearray(data.tobytes()))
            self._state.change({"do": "load", "store": told["store"]}, data)
        return {}, None

    def _profile(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Calls a function of this process's profiler."""
        run_here(self._place.number, told["command"], told["arguments"])
        return {}, None


_OF_WORKERS: dict[str, Callable[..., Any]] = {
    "push": Server._push, "push at once": Server._push_at_once, "init": Server._init, "pull": Server._pull,
    "rounds": Server._counted, "optimizer": Server._optimizer, "save": Server._save, "load": Server._load,
    "join": Server._join, "barrier": Server._barrier, "profile": Server._profile, "keys": Server._tell_keys,
    "waits": Server._tell_waits, "fail": Server._hear_failure,
}  # fmt: skip
_OF_LAUNCHERS: dict[str, Callable[..., Any]] = {
    "ended": Server._ended,
    "lost": Server._lose,
    "join": Server._join,
}
