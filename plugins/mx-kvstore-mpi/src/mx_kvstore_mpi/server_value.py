# SPDX-License-Identifier: Apache-2.0
"""A value on a server, what workers have pushed of it, and its updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore.updater import Updater
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.messages import small
from mx_kvstore_mpi.parts import slice_count, slices
from mx_kvstore_mpi.reduction import native
from mx_ndarray import NDArray
from mx_ndarray._core import share_numpy


class Value:
    """A value, or a part of one. Threads: one.

    A worker pushes its slices one after the other, from the first on. So what all workers have pushed are the first
    slices, too.

    Parameters
    ----------
    store : int
        To which it belongs.
    key : int or str
    stored : numpy array of one dimension
        Its elements, of which it becomes the owner.
    shape : tuple of int
    code : int
        Of its element type.
    step : int
        Elements of a slice.
    whole : tuple of int
        The shape of the value that this is a part of.
    """

    def __init__(
        self,
        store: int,
        key: Any,
        stored: Values,
        shape: tuple[int, ...],
        code: int,
        step: int,
        whole: tuple[int, ...],
    ) -> None:
        self.store, self.key, self.stored, self.step = store, key, stored, step
        #: what worker 0 says of the value
        self.declared = whole, code
        self.slices = list(slices(stored.size, step))
        #: whether they are answered in packets
        self.small = small(stored.size, step, stored.itemsize)
        #: of each worker that has begun a push: its elements, how many slices are there, and its priority
        self.pushed: dict[int, Values] = {}
        self.there: dict[int, int] = {}
        self.priorities: dict[int, int] = {}
        self._shape, self._code = shape, code
        self._array = self._shared(stored)
        self._common = [0] * slice_count(stored.size, step)
        #: pushes that all workers of a round have made
        self.rounds = 0
        #: which push of each worker this round sums, as the first that came says
        self.turn = 0
        self._free: dict[int, Values] = {}
        self._merged: tuple[Values, NDArray] | None = None

    def _shared(self, values: Values) -> NDArray:
        return share_numpy(values.reshape(self._shape), self._code)

    def room(self, source: int, begin: int) -> Values:
        """Where the elements of the next slice of a worker go: memory of an earlier push of it, if there is some.

        Raises
        ------
        ProtocolError  it is not the slice that begins there
        """
        place = self.there.get(source, 0)
        if begin != self.slices[place].start:
            raise ProtocolError(
                f"[KVStore server] key {self.key!r}: expected the slice of rank {source} that begins at "
                f"{self.slices[place].start}, got that at {begin}"
            )
        if source not in self.pushed:
            free = self._free.pop(source, None)
            self.pushed[source] = np.empty_like(self.stored) if free is None else free
        return self.pushed[source][self.slices[place]]

    def take(self, source: int, priority: int) -> int:
        """Counts the slice of a worker that is in its `room`; its place among the slices."""
        place = self.there.get(source, 0)
        self.there[source], self.priorities[source] = place + 1, priority
        return place

    def is_last(self, place: int) -> bool:
        """Whether no slice follows."""
        return place == len(self.slices) - 1

    def is_common(self, place: int, workers: int) -> bool:
        """Counts a slice for a round of so many workers; whether all of them have pushed it."""
        self._common[place] += 1
        return self._common[place] == workers

    @property
    def in_round(self) -> bool:
        """Whether workers have pushed something that waits for what others push."""
        return any(self._common)

    @property
    def waits_for(self) -> int:
        """Which push of each worker a round that has begun waits for."""
        return self.turn or self.rounds + 1

    def sum_slice(self, place: int) -> None:
        """Puts the sum of a slice over workers, in the order of their ranks, in the value's place."""
        elements = self.slices[place]
        _sum([self.pushed[source][elements] for source in sorted(self.pushed)], self.stored[elements])

    def update(self, updater: Updater, sources: list[int]) -> None:
        """Gives the updater the sum of what some workers have pushed, in the order of their ranks."""
        if self._merged is None:
            merged = np.empty_like(self.stored)
            self._merged = merged, self._shared(merged)
        merged, array = self._merged
        _sum([self.pushed[source] for source in sorted(sources)], merged)
        updater(self.key, array, self._array)
        array.wait_to_write()
        self._array.wait_to_read()

    def end(self, sources: list[int]) -> None:
        """The pushes of some workers are done; their next ones begin with the first slice."""
        for source in sources:
            self._free[source] = self.pushed.pop(source)
            del self.there[source], self.priorities[source]
        self._common = [0] * len(self._common)
        self.rounds += 1


def _sum(pushed: list[Values], merged: Values) -> None:
    if len(pushed) == 1:
        np.copyto(merged, pushed[0])
    elif native(merged.dtype):
        np.add(pushed[0], pushed[1], out=merged)
        for other in pushed[2:]:
            merged += other
    else:
        wide = pushed[0].astype(np.float32)
        for other in pushed[1:]:
            wide += other.astype(np.float32)
        merged[:] = wide.astype(merged.dtype)
