# SPDX-License-Identifier: Apache-2.0
"""Sums over workers, with the same bits in every run: an element is added in an order that depends on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression

#: tags of MPI: parts of an array, and their sums
_PART, _SUM = 1, 2
#: bytes below which arrays are sent together
SMALL = 1 << 18
#: bytes that are sent together
BUCKET = 1 << 22
#: element types that MPI adds by itself
_OF_MPI = frozenset("bBhHiIlLqQfd")


def native(dtype: np.dtype[Any]) -> bool:
    """Whether MPI adds values of the type."""
    return dtype.char in _OF_MPI


class _All:
    """Several requests as one."""

    def __init__(self, pending: list[Any]) -> None:
        self._pending = pending

    def Test(self) -> bool:
        """Whether all are complete."""
        self._pending = [each for each in self._pending if not each.Test()]
        return not self._pending


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
        if self._size == 1:
            np.copyto(receive, send)
        elif native(send.dtype):
            self._by_parts(send, receive)
        else:
            self._ordered(send, receive)

    def _by_parts(self, send: Values, receive: Values) -> None:
        """Each worker adds one part of the array, in the order of ranks, and gives the sum to all others."""
        size, rank, count = send.size, self._comm.Get_rank(), self._size
        parts = [slice(size * place // count, size * (place + 1) // count) for place in range(count)]
        mine, others = parts[rank], [place for place in range(count) if place != rank]
        given = {place: self._part(place, mine.stop - mine.start, send.dtype) for place in others}
        pending = [self._comm.Irecv(given[place], place, _PART) for place in others]
        pending += [self._comm.Isend(send[parts[place]], place, _PART) for place in others]
        self._wait(_All(pending))
        terms = [send[mine] if place == rank else given[place] for place in range(count)]
        np.add(terms[0], terms[1], out=receive[mine])
        for term in terms[2:]:
            receive[mine] += term
        pending = [self._comm.Irecv(receive[parts[place]], place, _SUM) for place in others]
        pending += [self._comm.Isend(receive[mine], place, _SUM) for place in others]
        self._wait(_All(pending))

    def _part(self, place: int, count: int, dtype: np.dtype[Any]) -> Values:
        """Memory for the part of another worker, again that of the last call where it is enough."""
        kept = self._parts.get(place)
        if kept is None or kept.nbytes < count * dtype.itemsize:
            kept = self._parts[place] = np.empty(count * dtype.itemsize, np.uint8)
        return kept[: count * dtype.itemsize].view(dtype)

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
