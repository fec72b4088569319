# SPDX-License-Identifier: Apache-2.0
"""A parameter server: sums the pushes of workers or applies each at once, runs the optimizer, outlives its process.

Each push is stamped with the worker, how often it was started, and the number of the push among those of its key. A
push that counts already is answered, and not counted again. So whoever got no answer asks again. A change is in a file
before it counts, and it counts before it is answered.

It knows nothing of Ray: an actor calls `answer`.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_engine.profiler.told import run_here
from mx_kvstore.arrays import sums
from mx_kvstore.updater import updater_for
from mx_kvstore_ray.agreement import Keys, Optimizers
from mx_kvstore_ray.described import describe, made
from mx_kvstore_ray.errors import KINDS, PeerLostError, ProtocolError
from mx_kvstore_ray.holding import hold
from mx_kvstore_ray.journal import Journal, Record
from mx_kvstore_ray.memory import Memory, Others
from mx_kvstore_ray.messages import Bytes, aligned, check_dense, packed
from mx_kvstore_ray.values import Members, Push, Store, Value, Waiters, elements
from mx_kvstore_ray.waits import Waits

#: seconds that a new process waits for the end of the one before
_HELD = 10.0
#: where keys are compared besides pushes
_MEETING = "barrier"
#: rank of a worker, and how often it was started before
Stamp = tuple[int, int]
#: name and text of an error, or None; JSON values; bytes
Answer = tuple[tuple[str, str] | None, dict[str, Any], Bytes | None]


class Server:
    """What a server holds and does. Threads: one, that of its event loop.

    Parameters
    ----------
    number : int
        Among the servers.
    workers : int
        How many the job begins with.
    on_loss : {"stop", "continue", "restart"}
    folder : path
        For its files. What an earlier process left there is where this one begins.
    timeout : float
        Seconds that an answer may wait for other workers.
    interval : float
        Seconds between two checkpoints.

    Raises
    ------
    FileFormatError  the latest checkpoint is damaged
    MXNetError       another process has the folder
    """

    def __init__(
        self, number: int, workers: int, on_loss: str, folder: str, timeout: float, interval: float
    ) -> None:
        self._number, self._on_loss = number, on_loss
        self._members = Members.of(workers)
        self._fault: str | None = None
        self._waits = Waits(timeout, self._check_of, lambda: self._members.ended)
        self._optimizers, self._keys = Optimizers(), Keys()
        self._stores: dict[int, Store] = {}
        self._values: dict[tuple[int, Any], Value] = {}
        self._size = 0
        #: barriers that all have come to, and those to which each worker has come
        self._met = 0
        self._arrived: dict[int, int] = {}
        self._waiters: Waiters = []  # for a barrier, a first value, an optimizer
        #: where large values are, for workers of the same machine, and by worker its memory
        self._others: dict[int, Others] = {}
        self._held = hold(Path(folder), _HELD)
        self._journal = Journal(Path(folder), interval)
        self._memory = Memory(Path(folder))
        for told, data in self._journal.recover():
            self._repeat(told, data)
        self._journal.checkpoint(self._state())
        self._memory.tidy()

    def close(self) -> None:
        """Closes the files; they stay."""
        self._journal.close()
        self._memory.close()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

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
            answer: tuple[dict[str, Any], Bytes | None] = found
            self._tidy()
            return None, *answer
        except MXNetError as error:
            kind = type(error).__name__
            if isinstance(error, ProtocolError) and stamp is not None and self._is_member(stamp):
                self._fail(str(error))
            return (kind if kind in KINDS else "MXNetError", str(error)), {}, None

    async def _checked(self, stamp: Stamp | None, found: Any) -> Any:
        answer = await found
        self._check(stamp)
        return answer

    def _is_member(self, stamp: Stamp) -> bool:
        rank, start = stamp
        return self._members.starts.get(rank) == start and rank not in self._lost()

    def _lost(self) -> set[int]:
        return set(self._members.starts) - self._members.active - self._members.ended

    def _check_of(self, rank: int) -> Callable[[], None]:
        stamp = (rank, self._members.starts.get(rank, 0))
        return lambda: self._check(stamp)

    def _check(self, stamp: Stamp | None) -> None:
        """Raises the failure of the job; refuses a worker that another has replaced."""
        if stamp is None:
            return
        if self._fault is not None:
            raise PeerLostError(self._fault)
        if not self._is_member(stamp):
            raise PeerLostError(
                f"[KVStore] worker {stamp[0]} (start {stamp[1]}) was taken for lost, and the job goes on without it"
            )

    def _fail(self, text: str) -> None:
        if self._fault is None:
            self._change({"do": "fail", "why": text})

    def _change(self, told: dict[str, Any], data: Bytes | None = None) -> None:
        """Writes a change down, then makes it; one that cannot be made is not kept."""
        place = self._journal.append(told) if data is None else self._journal.append(told, data)
        try:
            self._make(told, data)
        except BaseException:
            self._journal.cut(place)
            raise

    def _tidy(self) -> None:
        if self._journal.due(self._size):
            self._journal.checkpoint(self._state())

    # ---- pushes ----

    async def _push(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> tuple[dict[str, Any], Bytes | None]:
        """Pushes of several keys, whose new values are the answer."""
        taken = []
        for each, piece in self._pieces(rank, told, data):
            if piece is None:
                return {"unseen": True}, None
            value = self._value(each)
            self._take(rank, value, each, piece)
            taken.append((value, int(each["n"]), "memory" in each))
        self._complete([value for value, *_ in taken])
        for value, n, _ in taken:
            if value.rounds >= n:
                continue

            def ready(value: Value = value, n: int = n) -> bool:
                return value.rounds >= n

            def others(value: Value = value) -> set[int]:
                return self._members.active - value.pushed.keys()

            await self._waits.until(value.waiters, rank, ready, f"push {n} of key {value.key!r}", others)
        # Who left a push in memory reads the value there: it stays until that worker has pushed the next one.
        places = [value.where if left else None for value, _, left in taken]
        return {"memory": places}, packed(
            [
                value.stored.view(np.uint8)
                for (value, _, _), where in zip(taken, places, strict=True)
                if where is None
            ]
        )

    def _pieces(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> Iterator[tuple[dict[str, Any], Bytes | None]]:
        """The pushes of a message and their bytes, or None of one that is in memory that is not seen here."""
        at = 0
        for each in told["pushes"]:
            check_dense(rank, each)
            where, size = each.get("memory"), int(each["bytes"])
            if where is not None:
                yield each, self._others.setdefault(rank, Others()).at(where, size)
            else:
                yield each, data[at : at + size]
                at += aligned(size)

    def _take(self, rank: int, value: Value, told: dict[str, Any], data: Bytes) -> None:
        """Takes part in a round, unless the push counts already."""
        n = int(told["n"])
        if n <= value.rounds:
            return
        if n != value.rounds + 1:
            raise ProtocolError(
                f"[KVStore server] key {value.key!r}: expected push {value.rounds + 1} of worker {rank}, got {n}; the "
                "gradient of an earlier one failed there, or the server's files were lost"
            )
        value.pushed[rank] = Push(value.expanded(told, data), told["rates"], told["how"])
        self._come((value.store, value.key), n, f"push {n} of key {value.key!r}", rank, told)

    def _complete(self, values: Iterable[Value]) -> None:
        """Ends rounds in which all have pushed."""
        active = self._members.active
        complete = [value for value in values if value.pushed and active <= value.pushed.keys()]
        for value in complete:
            value.check_alike()
        turning = [value for value in complete if not value.in_place]
        targets = [value.places[1 - value.place].data for value in turning]
        sums(
            [value.code for value in turning],
            [value.terms() for value in turning],
            [[elements(target, value.code)] for value, target in zip(turning, targets, strict=True)],
        )
        if turning:
            turns = [[value.store, value.key, 1 - value.place] for value in turning]
            self._change({"do": "turn", "values": turns})
        for value in complete:
            if value.pushed:
                rates = value.pushed[min(value.pushed)].rates
                told = {"do": "round", "store": value.store, "key": value.key, "rates": rates}
                self._change(told, value.merge().view(np.uint8))

    async def _push_at_once(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> tuple[dict[str, Any], Bytes | None]:
        """Pushes of several keys, each of which is applied now."""
        for each, piece in self._pieces(rank, told, data):
            if piece is None:
                return {"unseen": True}, None
            value = self._value(each)
            store = self._store(value.store)
            await self._waits.until(
                self._waiters, rank, lambda store=store: store.updater is not None,  # type: ignore[misc]
                f"push of key {value.key!r}, for the optimizer of worker 0", lambda: {0} - {rank},
            )  # fmt: skip
            if each["n"] <= value.applied.get(rank, 0):
                continue
            change = {name: each[name] for name in ("store", "key", "n", "rates")}
            self._change({"do": "push", "rank": rank, **change}, value.expanded(each, piece).view(np.uint8))
        return {}, None

    # ---- values ----

    def _init(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """The first value of worker 0, unless the key has one; answers with the present one."""
        check_dense(rank, told)
        if (told["store"], told["key"]) not in self._values:
            self._first({n: told[n] for n in ("store", "key", "shape", "code", "whole") if n in told}, data)
        value = self._value(told)
        value.check_declared(rank, told)
        return self._present(value)

    def _first(self, told: dict[str, Any], data: Bytes) -> None:
        """Gives a key its first value: in memory that stays, where there is some."""
        first, second = self._memory.take(data.nbytes), self._memory.take(data.nbytes)
        if first is None or second is None:
            self._change({"do": "init", **told}, data)
            return
        told = {"do": "init", **told, "places": [first.kept, second.kept]}
        if self._store(told["store"]).updater is None:
            first.data[:] = data
            self._change({**told, "place": 0})
        else:
            self._change(told, data)

    async def _pull(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> tuple[dict[str, Any], Bytes | None]:
        """The present value, once worker 0 has given the first."""
        place, what = (told["store"], told["key"]), f"the first value of key {told['key']!r}"
        await self._waits.until(
            self._waiters, rank, lambda: place in self._values, what, lambda: {0} - {rank}
        )
        value = self._values[place]
        value.check_declared(rank, told)
        return self._present(value)

    def _present(self, value: Value) -> tuple[dict[str, Any], Bytes | None]:
        found = {"rounds": value.rounds}
        return found, value.stored.view(np.uint8).copy()  # it may change before the answer has left

    def _rounds(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """How many pushes of each key of a store count."""
        found = [value for (store, _), value in self._values.items() if store == told["store"]]
        rounds = [max(value.rounds, value.applied.get(rank, 0)) for value in found]
        return {"rounds": rounds, "met": self._met}, None

    def _value(self, told: dict[str, Any]) -> Value:
        value = self._values.get((told["store"], told["key"]))
        if value is None:
            raise ProtocolError(f"[KVStore server] key {told['key']!r} has no value yet")
        return value

    def _store(self, number: int) -> Store:
        return self._stores.setdefault(number, Store())

    # ---- the optimizer ----

    def _optimizer(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """Runs an optimizer of worker 0 from now on, unless this is a repetition; compares those of others."""
        if self._members.starts[rank] == 0:  # one that was started anew may have gone on from other numbers
            self._optimizers.compare(rank, told)
        if rank == 0 and told["n"] > self._store(told["store"]).optimizers:
            updater_for(made(told["optimizer"]))  # whose errors are the worker's
            self._change({"do": "optimizer", "store": told["store"], "optimizer": told["optimizer"]})
        return {}, None

    def _updater(self, told: dict[str, Any]) -> Any:
        updater = self._store(told["store"]).updater
        if updater is None:
            raise MXNetError("no optimizer is set; call set_optimizer first")
        return updater

    def _save(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """The states of the optimizer."""
        states = bytes(self._updater(told).get_states(bool(told["dump"])))
        return {}, np.frombuffer(states, np.uint8)

    def _load(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """Takes states of the optimizer, unless this is a repetition."""
        updater = self._updater(told)
        if told["n"] > self._store(told["store"]).loads:
            check = getattr(updater, "check_states", None)
            if check is not None:
                check(bytearray(data.tobytes()))
            self._change({"do": "load", "store": told["store"]}, data)
        return {}, None

    def _profile(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """Calls a function of this process's profiler."""
        run_here(self._number, told["command"], told["arguments"])
        return {}, None

    # ---- members ----

    def _join(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """A worker is there."""
        return {}, None

    def _tell_keys(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """A worker says which keys it has initialised since it last said so."""
        if self._members.starts[rank] == 0:  # one that was started anew may go on from other keys
            called = {(store, key): n for store, key, n in told["pushes"]} | {_MEETING: told["met"]}
            self._keys.tell(rank, int(told["begin"]), told["names"], called)
        return {}, None

    def _come(self, place: Any, n: int, what: str, rank: int, told: dict[str, Any]) -> None:
        """A worker has come to where all come with the same keys."""
        if self._members.starts[rank] == 0:
            self._keys.come(place, n, what, rank, int(told["keys"]))

    def _tell_waits(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> tuple[dict[str, Any], Bytes | None]:
        """Who waits here, what for, and who is missing."""
        return {"waits": list(self._waits.told().items())}, None

    async def _barrier(
        self, rank: int, told: dict[str, Any], data: Bytes
    ) -> tuple[dict[str, Any], Bytes | None]:
        """Waits until all workers have come to a barrier of this number."""
        n = int(told["n"])
        self._arrived[rank] = max(n, self._arrived.get(rank, 0))
        if n > self._met:
            self._come(_MEETING, n, f"meeting {n} of all workers", rank, told)
        self._meet()
        await self._waits.until(
            self._waiters, rank, lambda: self._met >= n, told["called"],
            lambda: {each for each in self._members.active if self._arrived.get(each, 0) < n},
        )  # fmt: skip
        return {}, None

    def _meet(self) -> None:
        present = [self._arrived.get(rank, 0) for rank in self._members.active]
        if present and min(present) > self._met:
            self._change({"do": "met", "n": min(present)})

    def _ended(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """The launcher says that a worker has ended in good order."""
        if told["rank"] not in self._members.ended:
            self._change({"do": "ended", "rank": told["rank"]})
            self._go_on()
        return {}, None

    def _lose(self, rank: int, told: dict[str, Any], data: Bytes) -> tuple[dict[str, Any], Bytes | None]:
        """The launcher says that a worker is lost, and what is done about it."""
        lost, start = told["rank"], told["start"]
        if told["then"] == "stop":
            self._fail(told["why"])
        elif self._members.starts[lost] == start and lost in self._members.active:
            self._change({"do": "lost", "rank": lost, "start": start, "then": told["then"]})
            self._go_on()
        return {}, None

    def _go_on(self) -> None:
        """After a change of members: what waited for one that is gone is complete, or fails."""
        try:
            self._complete(self._values.values())
            self._meet()
        except ProtocolError as error:
            self._fail(str(error))
        self._wake_all()

    def _wake_all(self) -> None:
        _wake(self._waiters)
        for value in self._values.values():
            _wake(value.waiters)

    # ---- changes ----

    def _make(self, told: dict[str, Any], data: Bytes | None) -> None:
        """Makes a change, now or again from a file."""
        do = told["do"]
        if do in ("round", "push"):
            self._update(told, data)
        elif do == "turn":
            for store_number, key, place in told["values"]:
                value = self._values[store_number, key]
                value.turn(place)
                self._end_round(value)
        elif do == "init":
            self._make_value(told, data)
            _wake(self._waiters)
        elif do == "optimizer":
            store = self._store(told["store"])
            store.updater = updater_for(made(told["optimizer"]))
            store.optimizers += 1
            for value in self._values.values():
                if value.store == told["store"]:
                    value.settle()
            _wake(self._waiters)
        elif do == "load":
            assert data is not None
            store = self._store(told["store"])
            store.loads += 1
            states: Any = store.updater
            states.set_states(bytearray(data.tobytes()))
        elif do == "met":
            self._met = told["n"]
            _wake(self._waiters)
        elif do == "fail":
            self._fault = told["why"]
            self._wake_all()
        elif do == "ended":
            self._keys.forget(told["rank"])
            self._members.ended.add(told["rank"])
            if self._on_loss != "stop":
                self._members.active.discard(told["rank"])
        elif do == "lost":
            rank = told["rank"]
            for value in self._values.values():
                value.pushed.pop(rank, None)
            self._arrived.pop(rank, None)
            self._others.pop(rank, None)
            self._keys.forget(rank)
            if told["then"] == "restart":
                self._members.starts[rank] = told["start"] + 1
            else:
                self._members.active.discard(rank)

    def _make_value(self, told: dict[str, Any], data: Bytes | None) -> None:
        """A value whose elements are `data`, or lie in one of its places already."""
        dtype = dtypes.numpy_dtype(told["code"])
        size = math.prod(told["shape"]) * dtype.itemsize
        places = [self._memory.again(kept, size) for kept in told.get("places", ())]
        stored = places[0].data if places else np.empty(size, np.uint8)
        if "place" not in told:
            assert data is not None
            stored[:] = data
        shape, code = told["shape"], told["code"]
        value = Value(
            told["store"], told["key"], shape, code, elements(stored, code), told.get("whole", shape)
        )
        value.in_place = "place" not in told
        if places:
            value.lie(places, told.get("place", 0))
        self._values[value.store, value.key] = value
        self._size += size

    def _update(self, told: dict[str, Any], data: Bytes | None) -> None:
        assert data is not None
        value = self._value(told)
        updater = self._store(value.store).updater
        value.update(elements(data, value.code), updater, told["rates"])
        if told["do"] == "push":
            value.applied[told["rank"]] = told["n"]
        else:
            self._end_round(value)

    def _end_round(self, value: Value) -> None:
        value.rounds += 1
        value.pushed.clear()
        _wake(value.waiters)

    def _state(self) -> Iterator[Record]:
        """All that the server holds, as records."""
        nothing = np.empty(0, np.uint8)
        yield {"do": "members", **self._members.told(), "met": self._met, "fault": self._fault}, nothing
        for number, store in self._stores.items():
            told = {"do": "store", "store": number, "optimizers": store.optimizers, "loads": store.loads}
            states = nothing
            updater: Any = store.updater
            if updater is not None:
                told["optimizer"] = describe(updater.optimizer)
                states = np.frombuffer(bytes(updater.get_states(False)), np.uint8)
            yield told, states
        for value in self._values.values():
            told = {
                "do": "value", "store": value.store, "key": value.key, "shape": value.shape, "code": value.code,
                "whole": value.whole, "rounds": value.rounds, "applied": list(value.applied.items()),
            }  # fmt: skip
            if value.places:
                told["places"] = [place.kept for place in value.places]
            if value.in_place:
                yield told, value.stored.view(np.uint8)
            else:
                yield {**told, "place": value.place}, nothing

    def _repeat(self, told: dict[str, Any], data: Bytes) -> None:
        """Takes a record of a file."""
        do = told["do"]
        if do == "members":
            self._members = Members.from_told(told)
            self._met, self._fault = told["met"], told["fault"]
        elif do == "store":
            store = self._stores[told["store"]] = Store(None, told["optimizers"], told["loads"])
            if "optimizer" in told:
                updater: Any = updater_for(made(told["optimizer"]))
                updater.set_states(bytearray(data.tobytes()))
                store.updater = updater
        elif do == "value":
            self._make({**told, "do": "init"}, data)
            value = self._value(told)
            value.rounds, value.applied = told["rounds"], dict(map(tuple, told["applied"]))
        elif do != "end":
            self._make(told, data)


def _wake(waiters: Waiters) -> None:
    for future in waiters:
        if not future.done():
            future.set_result(None)
    waiters.clear()


_OF_WORKERS: dict[str, Callable[..., Any]] = {
    "push": Server._push, "push at once": Server._push_at_once, "init": Server._init, "pull": Server._pull,
    "rounds": Server._rounds, "optimizer": Server._optimizer, "save": Server._save, "load": Server._load,
    "join": Server._join, "barrier": Server._barrier, "profile": Server._profile, "keys": Server._tell_keys,
    "waits": Server._tell_waits,
}  # fmt: skip
_OF_LAUNCHERS: dict[str, Callable[..., Any]] = {
    "ended": Server._ended,
    "lost": Server._lose,
    "join": Server._join,
}
