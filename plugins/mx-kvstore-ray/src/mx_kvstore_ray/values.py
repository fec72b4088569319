# SPDX-License-Identifier: Apache-2.0
"""A value on a server: its elements, the pushes of a round, sums in the order of ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_kvstore.arrays import Values
from mx_kvstore.updater import Updater
from mx_kvstore_ray.described import set_rates
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
        How many optimizers, and states of one from a file, it has been given.
    """

    updater: Updater | None = None
    optimizers: int = 0
    loads: int = 0


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
    """

    def __init__(self, store: int, key: Any, shape: Sequence[int], code: int, stored: Values) -> None:
        self.store, self.key, self.shape, self.code = store, key, tuple(shape), code
        self.stored = stored
        #: where it is in memory that workers may read
        self.where: list[int] | None = None
        #: completed rounds; with asynchronous pushes, of each worker how many count
        self.rounds = 0
        self.applied: dict[int, int] = {}
        self.pushed: dict[int, Push] = {}
        self.waiters: Waiters = []
        self._array = self._shared(stored)
        self._merged: Values | None = None

    def _shared(self, values: Values) -> NDArray:
        return share_numpy(values.reshape(self.shape), self.code)

    def merge(self) -> Values:
        """The sum of what was pushed, in the order of ranks; valid until the next one."""
        if self._merged is None:
            self._merged = np.empty_like(self.stored)
        _sum([self.pushed[rank].values for rank in sorted(self.pushed)], self._merged)
        return self._merged

    def update(self, total: Values, updater: Updater | None, rates: dict[str, Any]) -> None:
        """Gives a sum to the updater, or has it take the place of the value."""
        if updater is None:
            np.copyto(self.stored, total)
            return
        gradient = self._shared(total if total.flags.writeable else total.copy())
        set_rates(getattr(updater, "optimizer", None), rates)
        updater(self.key, gradient, self._array)
        gradient.wait_to_write()
        self._array.wait_to_read()


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


def elements(data: Values, code: int) -> Values:
    """Bytes as elements of a type, which nobody else writes."""
    return data.view(dtypes.numpy_dtype(code))


def _sum(pushed: list[Values], merged: Values) -> None:
    if len(pushed) == 1:
        np.copyto(merged, pushed[0])
    elif merged.dtype.itemsize > 2 or merged.dtype.kind in "iu":
        np.add(pushed[0], pushed[1], out=merged)
        for other in pushed[2:]:
            merged += other
    else:
        wide = pushed[0].astype(np.float32)
        for other in pushed[1:]:
            wide += other.astype(np.float32)
        merged[:] = wide.astype(merged.dtype)


def joined(ranks: Sequence[int] | set[int]) -> str:
    """`worker 3`, `workers 1, 2`: how messages name them."""
    found = sorted(ranks)
    return f"{'worker' if len(found) == 1 else 'workers'} {', '.join(map(str, found))}"
