# SPDX-License-Identifier: Apache-2.0
"""What waits to be sent to another process: urgent messages overtake those that have not begun."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mx_kvstore_mpi import messages
from mx_kvstore_mpi.messages import PACKET, Encoded

#: packets that are under way at once
_AT_ONCE = 8
#: bytes that are sent while a process is not looked at
_BUSY = 1 << 20


@dataclass
class Sending:
    """A message to be sent.

    Parameters
    ----------
    size : int
        Bytes.
    encode : callable
        Called when it begins; gives the message.
    ended : callable
        Called once, when all of it has been sent.
    """

    size: int
    encode: Callable[[], Encoded]
    ended: Callable[[], object]


class Outbox:
    """Messages to one other process. Threads: one.

    The one with the largest priority is next, and of one priority those that came first. MPI delivers what has begun in
    that order, so only so much is begun at once as keeps the network busy. A large value is cut into slices, which are
    messages of their own: an urgent value need not wait for all of it. Small messages that wait travel together.

    Source: Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training", 2019.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    to, tag : int
        Of the packets.
    limit : int
        Bytes under way at once; a message that is larger goes alone.
    """

    def __init__(self, comm: Any, to: int, tag: int, limit: int) -> None:
        self._comm, self._to, self._tag = comm, to, tag
        self._limit = limit
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Sending, Iterator[Sending]]] = []
        self._under_way: list[tuple[list[Sending], list[Any]]] = []
        self._bytes = 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits or is under way."""
        return not self._waiting and not self._under_way

    def put(self, priority: int, messages: Iterable[Sending]) -> None:
        """Takes messages of one priority, which are sent in their order.

        Parameters
        ----------
        priority : int
        messages : iterable of Sending
            Is asked for the next one when the one before has begun.
        """
        rest = iter(messages)
        first = next(rest, None)
        if first is not None:
            heapq.heappush(self._waiting, (-priority, next(self._order), first, rest))

    def go(self) -> bool:
        """Begins what there is room for; True if something has been sent completely."""
        left, ended = [], False
        for sendings, pending in self._under_way:
            while pending and pending[-1].Test():
                pending.pop()
            if pending:
                left.append((sendings, pending))
                continue
            ended = True
            for sending in sendings:
                self._bytes -= sending.size
                sending.ended()
        self._under_way = left
        while self._waiting and self._has_room(self._waiting[0][2].size):
            self._begin()
        return ended

    def _begin(self) -> None:
        """Begins to send the next message, and small ones behind it in the same packet."""
        sendings: list[Sending] = []
        found: list[Encoded] = []
        size = 0
        while self._waiting:
            following = self._waiting[0][2].size
            if sendings and (size + following > PACKET or not self._has_room(following)):
                break
            sending = self._next()
            encoded = sending.encode()
            self._bytes += sending.size
            size += sending.size
            sendings.append(sending)
            found.append(encoded)
            if encoded.apart:  # these would wait for the next ones
                break
        self._under_way.append((sendings, messages.send(self._comm, self._to, self._tag, found)))

    def _next(self) -> Sending:
        """Takes the most urgent message."""
        priority, order, sending, rest = self._waiting[0]
        following = next(rest, None)
        if following is None:
            heapq.heappop(self._waiting)
        else:
            heapq.heapreplace(self._waiting, (priority, order, following, rest))
        return sending

    def _has_room(self, size: int) -> bool:
        if not self._bytes and not self._under_way:
            return True
        return len(self._under_way) < _AT_ONCE and self._bytes + size <= self._limit


def bytes_at_once(step: int) -> int:
    """The limit for slices of so many elements: two of them, or as much as keeps the network busy meanwhile."""
    return max(2 * 4 * step, _BUSY)
