# SPDX-License-Identifier: Apache-2.0
"""Pushes on a server: those of a round are summed when all workers have pushed, others are applied at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mx_kvstore.arrays import sums
from mx_kvstore_ray.agreement import Keys, check_last
from mx_kvstore_ray.errors import ProtocolError
from mx_kvstore_ray.memory import Others
from mx_kvstore_ray.messages import Bytes, aligned, check_dense, packed
from mx_kvstore_ray.state import State
from mx_kvstore_ray.values import Push, Value, elements
from mx_kvstore_ray.waits import Waits

#: JSON values and bytes of an answer
Found = tuple[dict[str, Any], Bytes | None]


class Rounds:
    """Takes pushes. Threads: one, that of the event loop.

    Parameters
    ----------
    state : State
    waits : Waits
    keys : Keys
        Compared at each push that counts.
    """

    def __init__(self, state: State, waits: Waits, keys: Keys) -> None:
        self._state, self._waits, self._keys = state, waits, keys
        #: where large values are, for workers of the same machine, and by worker its memory
        self._others: dict[int, Others] = {}

    def forget(self, rank: int) -> None:
        """A worker is gone; the one that begins anew has another memory."""
        self._others.pop(rank, None)

    async def push(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Pushes of several keys, whose new values are the answer."""
        taken = []
        for each, piece in self._pieces(rank, told, data):
            if piece is None:
                return {"unseen": True}, None
            value = self._state.value(each)
            self._take(rank, value, each, piece)
            taken.append((value, int(each["n"]), "memory" in each))
        self.complete([value for value, *_ in taken])
        for value, n, _ in taken:
            if value.rounds >= n:
                continue

            def ready(value: Value = value, n: int = n) -> bool:
                return value.rounds >= n

            def others(value: Value = value) -> set[int]:
                return self._state.members.active - value.pushed.keys()

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

    async def push_at_once(self, rank: int, told: dict[str, Any], data: Bytes) -> Found:
        """Pushes of several keys, each of which is applied now: by an optimizer of this job, not of one before."""
        for each, piece in self._pieces(rank, told, data):
            if piece is None:
                return {"unseen": True}, None
            value = self._state.value(each)
            store = self._state.store(value.store)
            await self._waits.until(
                self._state.waiters, rank, lambda store=store: store.optimizers > 0,  # type: ignore[misc]
                f"push of key {value.key!r}, for the optimizer of worker 0", lambda: {0} - {rank},
            )  # fmt: skip
            if each["n"] <= value.applied.get(rank, 0):
                continue
            if rank == 0:
                self._check_optimizer(value)
            change = {name: each[name] for name in ("store", "key", "n", "rates")}
            expanded = value.expanded(each, piece).view(np.uint8)
            self._state.change({"do": "push", "rank": rank, **change}, expanded)
        return {}, None

    def _check_optimizer(self, value: Value) -> None:
        """Refuses pushes of a job whose optimizer is not the one that runs."""
        store = self._state.store(value.store)
        check_last(store.given, store.optimizers, self._state.folder)

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
        store = self._state.store(value.store)
        if store.updater is not None and not store.optimizers and not told["rates"]:
            raise ProtocolError(
                f"[KVStore] push {n} of key {value.key!r}: the files in {self._state.folder} are of a job with "
                f"{store.given[-1]['name']}, and worker {rank} has set no optimizer; set the same, or name another "
                "folder"
            )
        value.pushed[rank] = Push(value.expanded(told, data), told["rates"], told["how"])
        if self._state.members.starts[rank] == 0:  # one that was started anew may go on from other keys
            self._keys.come(
                (value.store, value.key), n, f"push {n} of key {value.key!r}", rank, int(told["keys"])
            )

    def complete(self, values: Iterable[Value]) -> None:
        """Ends rounds in which all have pushed."""
        active = self._state.members.active
        complete = [value for value in values if value.pushed and active <= value.pushed.keys()]
        for value in complete:
            value.check_alike()
            if 0 in value.pushed:  # who sets optimizers
                self._check_optimizer(value)
        turning = [value for value in complete if not value.in_place]
        targets = [value.places[1 - value.place].data for value in turning]
        sums(
            [value.code for value in turning],
            [value.terms() for value in turning],
            [[elements(target, value.code)] for value, target in zip(turning, targets, strict=True)],
        )
        if turning:
            turns = [[value.store, value.key, 1 - value.place] for value in turning]
            self._state.change({"do": "turn", "values": turns})
        for value in complete:
            if value.pushed:
                rates = value.pushed[min(value.pushed)].rates
                told = {"do": "round", "store": value.store, "key": value.key, "rates": rates}
                self._state.change(told, value.merge().view(np.uint8))
            self._keys.over((value.store, value.key))
