# SPDX-License-Identifier: Apache-2.0
"""What waits to be sent to another process: urgent messages overtake those that have not begun."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: messages that are under way at once
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
    begin : callable
        Begins to send it; gives requests of MPI.
    ended : callable
        Called once, when all of it has been sent.
    """

    size: int
    begin: Callable[[], list[Any]]
    ended: Callable[[], object]


class Outbox:
    """Messages to one other process. Threads: one.

    The one with the largest priority is next, and of one priority those that came first. MPI delivers what has begun in
    that order, so only so much is begun at once as keeps the network busy. A large value is cut into slices, which are
    messages of their own: an urgent value need not wait for all of it.

    Source: Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training", 2019.

    Parameters
    ----------
    limit : int
        Bytes under way at once; a message that is larger goes alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Sending, Iterator[Sending]]] = []
        self._under_way: list[tuple[Sending, list[Any]]] = []
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
        left, ended = [], []
        for sending, pending in self._under_way:
            while pending and pending[-1].Test():
                pending.pop()
            if pending:
                left.append((sending, pending))
            else:
                ended.append(sending)
        self._under_way = left
        for sending in ended:
            self._bytes -= sending.size
            sending.ended()
        while self._waiting and self._has_room(self._waiting[0][2]):
            priority, order, sending, rest = self._waiting[0]
            following = next(rest, None)
            if following is None:
                heapq.heappop(self._waiting)
            else:
                heapq.heapreplace(self._waiting, (priority, order, following, rest))
            self._bytes += sending.size
            self._under_way.append((sending, sending.begin()))
        return bool(ended)

    def _has_room(self, sending: Sending) -> bool:
        if not self._under_way:
            return True
        return len(self._under_way) < _AT_ONCE and self._bytes + sending.size <= self._limit


def bytes_at_once(step: int) -> int:
    """The limit for slices of so many elements: two of them, or as much as keeps the network busy meanwhile."""
    return max(2 * 4 * step, _BUSY)
