# SPDX-License-Identifier: Apache-2.0
"""Sums over workers, with the same bits in every run: an element is added in an order that depends on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore_mpi.by_parts import ByParts, room_for

#: bytes below which arrays are sent together
SMALL = 1 << 18
#: bytes that are sent together
BUCKET = 1 << 22
#: element types that MPI adds by itself
_OF_MPI = frozenset("bBhHiIlLqQfd")


def native(dtype: np.dtype[Any]) -> bool:
    """Whether MPI adds values of the type."""
    return dtype.char in _OF_MPI


class Summation:
    """Sums one-dimensional arrays over the workers of a communicator. Threads: one.

    A large array is exchanged by parts: each worker gets its part from all others, adds it in the order of ranks, and
    gives the sum to them. Small arrays travel together with whatever else is ready, so their place in the message is
    another one in each run. With two workers MPI adds them, as a + b = b + a; with more, their message is exchanged by
    parts, too. 16-bit types, which MPI does not know, are added in float32.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    wait : callable
        (request) -> None; returns when its `Test()` is true. Nothing spins inside of MPI, so that the processors are
        free for whoever computes meanwhile.
    """

    def __init__(self, comm: Any, wait: Callable[[Any], None]) -> None:
        from mpi4py import MPI

        self._comm = comm
        self._wait = wait
        self._parts: dict[int, Values] = {}
        self._size: int = comm.Get_size()
        self._sum = MPI.SUM
        self._buckets: dict[np.dtype[Any], tuple[Values, Values]] = {}

    def together(self, sends: Sequence[Values], receives: Sequence[Values]) -> None:
        """Sums several small arrays of one type; blocks until all workers do."""
        dtype = sends[0].dtype
        count = sum(send.size for send in sends)
        given, summed = self._bucket(dtype, count)
        at = 0
        for send in sends:
            given[at : at + send.size] = send
            at += send.size
        self.packed(given, summed)
        at = 0
        for receive in receives:
            receive[:] = summed[at : at + receive.size]
            at += receive.size

    def packed(self, given: Values, summed: Values) -> None:
        """Sums several small arrays that are one behind the other; blocks until all workers do."""
        if self._size <= 2 and native(given.dtype):
            self._wait(self._comm.Iallreduce(given, summed, self._sum))
        else:
            self._ordered(given, summed)

    def alone(self, send: Values, receive: Values) -> None:
        """Sums one array; blocks until all workers do."""
        self.several([(send, receive)], lambda place: None)

    def several(self, arrays: Sequence[tuple[Values, Values]], done: Callable[[int], object]) -> None:
        """Sums large arrays, each by itself; blocks until all workers do.

        Parameters
        ----------
        arrays : sequence of pairs of numpy arrays
            What is sent, and where the sum goes.
        done : callable
            Called with the place of each array once its sum is there.
        """
        streamed = [place for place, (send, _) in enumerate(arrays) if self._size > 1 and native(send.dtype)]
        if streamed:
            chosen = [arrays[place] for place in streamed]
            rank = self._comm.Get_rank()
            size = room_for(chosen, rank, self._size)
            rooms = {place: self._part(place, size) for place in range(self._size) if place != rank}
            self._wait(ByParts(self._comm, chosen, rooms, lambda place: done(streamed[place])))
        for place in sorted(set(range(len(arrays))).difference(streamed)):
            send, receive = arrays[place]
            if self._size == 1:
                np.copyto(receive, send)
            else:
                self._ordered(send, receive)
            done(place)

    def _part(self, place: int, size: int) -> Values:
        """Memory for parts of another worker, again that of the last call where it is enough."""
        kept = self._parts.get(place)
        if kept is None or kept.nbytes < size:
            kept = self._parts[place] = np.empty(size, np.uint8)
        return kept[:size]

    def compressed(self, send: Values, receive: Values, how: Compression, residual: Values) -> None:
        """Sums what codes of one array stand for, in the order of ranks; blocks until all workers do."""
        codes = np.empty(how.words(send.size), np.uint32)
        how.compress(send, residual, codes)
        gathered = np.empty((self._size, codes.size), np.uint32)
        self._wait(self._comm.Iallgather(bytes_of(codes), bytes_of(gathered)))
        for place, each in enumerate(gathered):
            how.expand(each, receive, add=place > 0)

    def gathered(self, rows: Values, counts: Sequence[int]) -> None:
        """Has all have all rows, of which each gives so many, in the order of ranks; blocks until all do."""
        from mpi4py import MPI

        each = rows.shape[1] * rows.itemsize
        self._wait(self._comm.Iallgatherv(MPI.IN_PLACE, [bytes_of(rows), [each * count for count in counts]]))

    def _bucket(self, dtype: np.dtype[Any], count: int) -> tuple[Values, Values]:
        least = max(count, BUCKET // dtype.itemsize)
        if dtype not in self._buckets or self._buckets[dtype][0].size < count:
            self._buckets[dtype] = (np.empty(least, dtype), np.empty(least, dtype))
        given, summed = self._buckets[dtype]
        return given[:count], summed[:count]

    def _ordered(self, send: Values, receive: Values) -> None:
        part = -(-send.size // self._size)
        padded = np.zeros(part * self._size, send.dtype)
        padded[: send.size] = send
        parts = np.empty((self._size, part), send.dtype)
        self._wait(self._comm.Ialltoall(bytes_of(padded), bytes_of(parts)))
        if native(send.dtype):
            mine = parts[0].copy()
            for other in parts[1:]:
                mine += other
        else:
            wide = parts[0].astype(np.float32)
            for other in parts[1:]:
                wide += other.astype(np.float32)
            mine = wide.astype(send.dtype)
        self._wait(self._comm.Iallgather(bytes_of(mine), bytes_of(padded)))
        receive[:] = padded[: send.size]


def bytes_of(values: Values) -> Values:
    """The same memory as bytes, which buffers of all types can be."""
    return values.reshape(-1).view(np.uint8)


def broadcast(comm: Any, values: Values) -> Any:
    """Begins to give all the values of rank 0; the request."""
    return comm.Ibcast(bytes_of(values), 0)
