# SPDX-License-Identifier: Apache-2.0
"""A value on a server: its elements, the pushes of a round, sums in the order of ranks.

Where an optimizer runs, a value changes in place. Otherwise it is the last sum: that of a round goes to one of two
places in turn, while the other one has the value. So a sum that is not finished harms nothing, and there is nothing to
be written down but which place has the value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_kvstore.arrays import Values, sums
from mx_kvstore.compression import Compression
from mx_kvstore.updater import Updater
from mx_kvstore_ray.described import set_rates
from mx_kvstore_ray.errors import ProtocolError
from mx_kvstore_ray.memory import Region
from mx_kvstore_ray.messages import Bytes
from mx_ndarray import NDArray
from mx_ndarray._core import share_numpy

Waiters = list["asyncio.Future[None]"]


@dataclass
class Store:
    """A store of the workers. Threads: one at a time.

    Parameters
    ----------
    updater : callable, optional
    optimizers, loads : int
        How many optimizers, and states of one from a file, it has been given in this job.
    given : list
        Of the optimizers of this job and those before, as they were told.
    """

    updater: Updater | None = None
    optimizers: int = 0
    loads: int = 0
    given: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Push:
    """What a worker has pushed in a round.

    Parameters
    ----------
    values : numpy array
    rates : mapping
        Of its optimizer.
    how : list, optional
        Kind and threshold of the compression.
    """

    values: Values
    rates: dict[str, Any]
    how: list[Any] | None


class Value:
    """A value, or a part of one. Threads: one at a time.

    Parameters
    ----------
    store : int
    key : int or str
    shape : sequence of int
    code : int
        Of its element type.
    stored : numpy array of one dimension
        Its elements, of which it becomes the owner.
    whole : sequence of int
        The shape of the value that this is a part of.
    """

    def __init__(
        self, store: int, key: Any, shape: Sequence[int], code: int, stored: Values, whole: Sequence[int]
    ) -> None:
        self.store, self.key, self.shape, self.code = store, key, tuple(shape), code
        self.stored, self.whole = stored, tuple(whole)
        #: two places that outlive the process, or none, and which of them has the value
        self.places: list[Region] = []
        self.place = 0
        #: whether the value changes in place, so that files need its elements
        self.in_place = True
        #: completed rounds; with asynchronous pushes, of each worker how many count
        self.rounds = 0
        self.applied: dict[int, int] = {}
        self.pushed: dict[int, Push] = {}
        self.waiters: Waiters = []
        self._array: NDArray | None = None
        self._merged: Values | None = None

    def check_declared(self, rank: int, told: dict[str, Any]) -> None:
        """Compares what a worker says of the value with what worker 0 said, where it says something.

        Raises
        ------
        ProtocolError  it has another shape or type
        """
        mine = self.whole, self.code
        theirs = tuple(told.get("whole", self.whole)), told.get("code", self.code)
        if mine != theirs:
            first, other = (f"shape {shape} and type {dtypes.name(code)}" for shape, code in (mine, theirs))
            raise ProtocolError(
                f"[KVStore] first values of key {self.key!r} differ: worker 0 has {first}, worker {rank} {other}"
            )

    @property
    def where(self) -> list[int] | None:
        """Where it is in memory that workers may read."""
        return self.places[self.place].where if self.places else None

    def lie(self, places: list[Region], place: int) -> None:
        """Takes the elements that one of two places has."""
        self.places = places
        self.turn(place)

    def turn(self, place: int) -> None:
        """The value is what the other place has."""
        self.place = place
        self.stored = elements(self.places[place].data, self.code)
        self._array = None

    def settle(self) -> None:
        """Changes in place from now on: in the other place, while files tell of this one."""
        if not self.in_place:
            other = self.places[1 - self.place].data
            other[:] = self.places[self.place].data
            self.turn(1 - self.place)
            self.in_place = True

    def expanded(self, told: dict[str, Any], data: Bytes) -> Values:
        """The elements of a push.

        Raises
        ------
        ProtocolError  they are another number
        """
        how = told["how"]
        compression = None if how is None else Compression(how[0], how[1])
        expected = self.stored.nbytes if compression is None else 4 * compression.words(self.stored.size)
        if data.nbytes != expected:
            raise ProtocolError(
                f"[KVStore server] key {self.key!r}: expected {expected} bytes, got {data.nbytes}"
            )
        if compression is None:
            return elements(data, self.code)
        found = np.empty(self.stored.size, np.float32)
        compression.expand(data.view(np.uint32), found)
        return found

    def check_alike(self) -> None:
        """Refuses pushes that are compressed differently.

        Raises
        ------
        ProtocolError  it names two workers
        """
        first = min(self.pushed)
        for rank, push in self.pushed.items():
            if push.how != self.pushed[first].how:
                raise ProtocolError(
                    f"[KVStore.set_gradient_compression] push {self.rounds + 1} of key {self.key!r}: the compression "
                    f"of worker {first} is {self.pushed[first].how or 'none'}, that of worker {rank} "
                    f"{push.how or 'none'}; all workers must set the same one, between the same pushes"
                )

    def terms(self) -> list[Values]:
        """What was pushed, in the order of ranks."""
        return [self.pushed[rank].values for rank in sorted(self.pushed)]

    def merge(self) -> Values:
        """The sum of what was pushed; valid until the next one."""
        if self._merged is None:
            self._merged = np.empty_like(self.stored)
        sums([self.code], [self.terms()], [[self._merged]])
        return self._merged

    def update(self, total: Values, updater: Updater | None, rates: dict[str, Any]) -> None:
        """Gives a sum to the updater, or has it take the place of the value."""
        if updater is None:
            np.copyto(self.stored, total)
            return
        if self._array is None:
            self._array = self._shared(self.stored)
        gradient = self._shared(total if total.flags.writeable else total.copy())
        set_rates(getattr(updater, "optimizer", None), rates)
        updater(self.key, gradient, self._array)
        gradient.wait_to_write()
        self._array.wait_to_read()

    def end_round(self) -> None:
        """A round is complete."""
        self.rounds += 1
        self.pushed.clear()
        wake(self.waiters)

    def _shared(self, values: Values) -> NDArray:
        return share_numpy(values.reshape(self.shape), self.code)


@dataclass
class Members:
    """Who takes part. Threads: one at a time.

    Parameters
    ----------
    starts : dict
        Of each rank, how often it was started before.
    active : set of int
        Ranks whose pushes a round waits for.
    ended : set of int
        Ranks that have ended in good order.
    """

    starts: dict[int, int]
    active: set[int]
    ended: set[int] = field(default_factory=set)

    @staticmethod
    def of(workers: int) -> Members:
        """At the begin of a job."""
        return Members(dict.fromkeys(range(workers), 0), set(range(workers)))

    @property
    def lost(self) -> set[int]:
        """Ranks without which the job goes on."""
        return self.starts.keys() - self.active - self.ended

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "starts": [self.starts[rank] for rank in sorted(self.starts)],
            "active": sorted(self.active),
            "ended": sorted(self.ended),
        }

    @staticmethod
    def from_told(told: dict[str, Any]) -> Members:
        """What `told` gave."""
        return Members(dict(enumerate(told["starts"])), set(told["active"]), set(told["ended"]))


def wake(waiters: Waiters) -> None:
    """Has those that wait look again."""
    for future in waiters:
        if not future.done():
            future.set_result(None)
    waiters.clear()


def elements(data: Values, code: int) -> Values:
    """Bytes as elements of a type, which nobody else writes."""
    return data.view(dtypes.numpy_dtype(code))


def joined(ranks: Sequence[int] | set[int]) -> str:
    """`worker 3`, `workers 1, 2`: how messages name them."""
    found = sorted(ranks)
    return f"{'worker' if len(found) == 1 else 'workers'} {', '.join(map(str, found))}"
