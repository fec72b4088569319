# SPDX-License-Identifier: Apache-2.0
"""What a server holds, and how it changes: by records, which are in a file before they count.

A process that begins with the files of an earlier one repeats the records, and holds what that one held.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore.updater import updater_for
from mx_kvstore_ray.agreement import same
from mx_kvstore_ray.described import describe, made
from mx_kvstore_ray.errors import ProtocolError
from mx_kvstore_ray.holding import hold
from mx_kvstore_ray.journal import Journal, Record
from mx_kvstore_ray.memory import Memory
from mx_kvstore_ray.messages import Bytes
from mx_kvstore_ray.settings import ServerPlace
from mx_kvstore_ray.values import Members, Store, Value, Waiters, elements, wake

#: seconds that a new process waits for the end of the one before
_HELD = 10.0


class State:
    """Values, optimizers, members and the failure of the job. Threads: one, that of the event loop.

    Parameters
    ----------
    place : ServerPlace
        Who takes part, where workers meet, what they set and load, and how it ends, is of one job. Values and
        optimizers outlive it.

    Raises
    ------
    FileFormatError  the latest checkpoint is damaged
    MXNetError       another process has the folder, or it is of a job with another number of servers
    """

    def __init__(self, place: ServerPlace) -> None:
        self.on_loss = place.on_loss
        #: that of all servers
        self.folder = Path(place.folder).parent
        self._job: str | None = place.job
        self.members = Members.of(place.workers)
        #: with how many servers workers have begun; before, a folder has nothing that a job could miss
        self.servers: int | None = None
        #: name and text of the error that has ended the job
        self.fault: tuple[str, str] | None = None
        self.stores: dict[int, Store] = {}
        self.values: dict[tuple[int, Any], Value] = {}
        #: barriers that all have come to
        self.met = 0
        #: for a barrier or an optimizer, and by store and key for a first value
        self.waiters: Waiters = []
        self.expected: dict[tuple[int, Any], Waiters] = {}
        self._size = 0
        folder = Path(place.folder)
        self._held = hold(folder, _HELD)
        self._journal = Journal(folder, place.interval)
        self.memory = Memory(folder)
        for told, data in self._journal.recover():
            self._repeat(told, data)
        if self.servers not in (None, place.servers):
            self.close()
            raise MXNetError(
                f"[KVStore server] {self.folder} has the files of a job with {self.servers} servers, and this one has "
                f"{place.servers}; start it with -s {self.servers}, or name another folder"
            )
        if self._job != place.job:
            self._job, self.members, self.met, self.fault = place.job, Members.of(place.workers), 0, None
            for store in self.stores.values():
                store.optimizers = store.loads = 0  # workers count them from the begin of their job
        self.checkpoint()
        self.memory.tidy()

    def close(self) -> None:
        """Closes the files; they stay."""
        self._journal.close()
        self.memory.close()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def value(self, told: dict[str, Any]) -> Value:
        """That of a store and key.

        Raises
        ------
        ProtocolError  it has none yet
        """
        value = self.values.get((told["store"], told["key"]))
        if value is None:
            raise ProtocolError(f"[KVStore server] key {told['key']!r} has no value yet")
        return value

    def store(self, number: int) -> Store:
        """The store of a number."""
        return self.stores.setdefault(number, Store())

    def change(self, told: dict[str, Any], data: Bytes | None = None) -> None:
        """Writes a change down, then makes it; one that cannot be made is not kept."""
        place = self._journal.append(told) if data is None else self._journal.append(told, data)
        try:
            self._make(told, data)
        except BaseException:
            self._journal.cut(place)
            raise

    def begin(self, told: dict[str, Any], data: Bytes) -> None:
        """Gives a key its first value: in memory that stays, where there is some."""
        first, second = self.memory.take(data.nbytes), self.memory.take(data.nbytes)
        if first is None or second is None:
            self.change({"do": "init", **told}, data)
            return
        told = {"do": "init", **told, "places": [first.kept, second.kept]}
        if self.store(told["store"]).updater is None:
            first.data[:] = data
            self.change({**told, "place": 0})
        else:
            self.change(told, data)

    def tidy(self) -> None:
        """Writes a checkpoint, if one is due."""
        if self._journal.due(self._size):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Writes all to a file, which takes the place of those before."""
        self._journal.checkpoint(self._records())

    def wake_all(self) -> None:
        """Has all that waits look again."""
        for waiters in (self.waiters, *self.expected.values()):
            wake(waiters)
        for value in self.values.values():
            wake(value.waiters)

    # ---- changes ----

    def _make(self, told: dict[str, Any], data: Bytes | None) -> None:
        """Makes a change, now or again from a file."""
        do = told["do"]
        if do in ("round", "push"):
            self._update(told, data)
        elif do == "turn":
            for store_number, key, place in told["values"]:
                value = self.values[store_number, key]
                value.turn(place)
                value.end_round()
        elif do == "init":
            self._make_value(told, data)
            wake(self.expected.pop((told["store"], told["key"]), []))
        elif do == "optimizer":
            self._set_optimizer(told["store"], told["optimizer"])
            wake(self.waiters)
        elif do == "load":
            assert data is not None
            store = self.store(told["store"])
            store.loads += 1
            states: Any = store.updater
            states.set_states(bytearray(data.tobytes()))
        elif do == "begin":
            self.servers = told["servers"]
        elif do == "met":
            self.met = told["n"]
            wake(self.waiters)
        elif do == "fail":
            self.fault = told["kind"], told["why"]
            self.wake_all()
        elif do == "ended":
            self.members.ended.add(told["rank"])
            if self.on_loss != "stop":
                self.members.active.discard(told["rank"])
        elif do == "lost":
            rank = told["rank"]
            for value in self.values.values():
                value.pushed.pop(rank, None)
            if told["then"] == "restart":
                self.members.starts[rank] = told["start"] + 1
            else:
                self.members.active.discard(rank)

    def _set_optimizer(self, number: int, optimizer: dict[str, Any]) -> None:
        """The next optimizer of a store: that of an earlier job, which goes on, or a new one."""
        store = self.store(number)
        n, store.optimizers = store.optimizers, store.optimizers + 1
        earlier = store.given[n:]
        if earlier and same(earlier[0], optimizer):
            return
        store.given[n:] = [optimizer]
        if earlier and same(earlier[-1], optimizer):
            return
        store.updater = updater_for(made(optimizer))
        for value in self.values.values():
            if value.store == number:
                value.settle()

    def _make_value(self, told: dict[str, Any], data: Bytes | None) -> None:
        """A value whose elements are `data`, or lie in one of its places already."""
        dtype = dtypes.numpy_dtype(told["code"])
        size = math.prod(told["shape"]) * dtype.itemsize
        places = [self.memory.again(kept, size) for kept in told.get("places", ())]
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
        self.values[value.store, value.key] = value
        self._size += size

    def _update(self, told: dict[str, Any], data: Bytes | None) -> None:
        assert data is not None
        value = self.value(told)
        updater = self.store(value.store).updater
        value.update(elements(data, value.code), updater, told["rates"])
        if told["do"] == "push":
            value.applied[told["rank"]] = told["n"]
        else:
            value.end_round()

    # ---- files ----

    def _records(self) -> Iterator[Record]:
        """All that the server holds."""
        nothing = np.empty(0, np.uint8)
        of_job = {"job": self._job, **self.members.told(), "met": self.met, "fault": self.fault}
        yield {"do": "members", **of_job, "servers": self.servers}, nothing
        for number, store in self.stores.items():
            told = {
                "do": "store", "store": number, "optimizers": store.optimizers, "loads": store.loads,
                "given": store.given,
            }  # fmt: skip
            states = nothing
            updater: Any = store.updater
            if updater is not None:
                told["optimizer"] = describe(updater.optimizer)
                states = np.frombuffer(bytes(updater.get_states(False)), np.uint8)
            yield told, states
        for value in self.values.values():
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
            self._job, self.members = told.get("job"), Members.from_told(told)
            self.met, self.fault = told["met"], told["fault"] and tuple(told["fault"])
            self.servers = told["servers"]
        elif do == "store":
            store = self.stores[told["store"]] = Store(None, told["optimizers"], told["loads"], told["given"])
            if "optimizer" in told:
                updater: Any = updater_for(made(told["optimizer"]))
                updater.set_states(bytearray(data.tobytes()))
                store.updater = updater
        elif do == "value":
            self._make({**told, "do": "init"}, data)
            value = self.value(told)
            value.rounds, value.applied = told["rounds"], dict(map(tuple, told["applied"]))
        elif do != "end":
            self._make(told, data)
