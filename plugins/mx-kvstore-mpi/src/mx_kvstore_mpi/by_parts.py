# SPDX-License-Identifier: Apache-2.0
"""Sums of large arrays over workers: each adds a part of all, piece by piece, and gives the sums to the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mx_kvstore.arrays import Values

#: tags of MPI: pieces of a part, and their sums
_PART, _SUM = 1, 2
#: bytes of a piece
PIECE = 1 << 22
#: bytes to a multiple of which parts of others are apart
_ALIGNED = 64


class _Array:
    """One array of a sum."""

    def __init__(self, comm: Any, send: Values, receive: Values, rooms: Mapping[int, Values]) -> None:
        count = len(rooms) + 1
        parts = parts_of(send.size, count)
        mine = parts[comm.Get_rank()]
        self._comm, self._mine, self._others = comm, receive[mine], list(rooms)
        self._terms = [rooms.get(place, send[mine]) for place in range(count)]
        self._coming = deque(
            (piece, [comm.Irecv(rooms[place][piece], place, _PART) for place in rooms])
            for piece in pieces(mine, send.itemsize, mine.start)
        )
        theirs = [(place, piece) for place in rooms for piece in pieces(parts[place], send.itemsize)]
        self._rest = [comm.Irecv(receive[piece], place, _SUM) for place, piece in theirs]
        self._rest += [comm.Isend(send[piece], place, _PART) for place, piece in theirs]

    def add(self) -> bool:
        """Adds the pieces that all have sent, and begins to send their sums; whether no more come."""
        while self._coming and _are_complete(self._coming[0][1]):
            piece, _ = self._coming.popleft()
            summed = self._mine[piece]
            np.add(self._terms[0][piece], self._terms[1][piece], out=summed)
            for term in self._terms[2:]:
                summed += term[piece]
            self._rest += [self._comm.Isend(summed, place, _SUM) for place in self._others]
        return not self._coming

    def is_complete(self) -> bool:
        """Whether all sums have come and gone, too."""
        return _are_complete(self._rest)


class ByParts:
    """Sums under way, as a request of MPI: `Test` does what can be done. Threads: one.

    All messages begin at once. So while a piece is added the next ones are under way, also those of the next arrays,
    and sums travel in the other direction of the links. A worker adds its part in the order of ranks.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of at least two workers.
    arrays : sequence of pairs of numpy arrays of one dimension
        What is sent, and where the sum goes; the two do not overlap.
    rooms : mapping of int to numpy array of uint8
        For this worker's parts as each other one sends them: `room_for(arrays, …)` bytes.
    done : callable
        Called with the place of each array, once it is complete.
    """

    def __init__(
        self,
        comm: Any,
        arrays: Sequence[tuple[Values, Values]],
        rooms: Mapping[int, Values],
        done: Callable[[int], object],
    ) -> None:
        self._done = done
        self._arrays: deque[tuple[int, _Array]] = deque()
        at = 0
        for number, (send, receive) in enumerate(arrays):
            size = _mine(send, comm.Get_rank(), len(rooms) + 1)
            each = {place: room[at : at + size].view(send.dtype) for place, room in rooms.items()}
            self._arrays.append((number, _Array(comm, send, receive, each)))
            at += _aligned(size)
        self._adding = deque(array for _, array in self._arrays)

    def Test(self) -> bool:
        """Goes on; whether all is done."""
        while self._adding and self._adding[0].add():  # sums are sent in the order in which they are expected
            self._adding.popleft()
        while len(self._arrays) > len(self._adding) and self._arrays[0][1].is_complete():
            self._done(self._arrays.popleft()[0])
        return not self._arrays


def room_for(arrays: Sequence[tuple[Values, Values]], rank: int, count: int) -> int:
    """Bytes of a worker's parts of arrays, of so many workers."""
    return sum(_aligned(_mine(send, rank, count)) for send, _ in arrays)


def _mine(send: Values, rank: int, count: int) -> int:
    part = parts_of(send.size, count)[rank]
    return int(part.stop - part.start) * send.itemsize


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def parts_of(size: int, count: int) -> list[slice]:
    """The part of each worker."""
    return [slice(size * place // count, size * (place + 1) // count) for place in range(count)]


def pieces(part: slice, itemsize: int, origin: int = 0) -> list[slice]:
    """A part in pieces, whose places are counted from an origin; none where it has no elements."""
    step = PIECE // itemsize
    return [
        slice(begin - origin, min(begin + step, part.stop) - origin)
        for begin in range(part.start, part.stop, step)
    ]


def _are_complete(pending: list[Any]) -> bool:
    """Whether requests are complete; those that are leave the list."""
    pending[:] = [each for each in pending if not each.Test()]
    return not pending
