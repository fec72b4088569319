# SPDX-License-Identifier: Apache-2.0
"""The order of steps by data flow, and the edges that reused memory adds to it.

A schedule is one order of its steps. Data flow asks for less: a step runs after those that write what
it reads, after those that touch a state it changes, and backward after all of forward. Any order that
keeps to this computes the same, if no two values that may be alive at once share memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from mx_symbol.memory.plan import MemoryPlan, Step

#: steps above which the order is not worked out: what it takes grows with the square
ORDER_LIMIT = 20_000


class Order:
    """The least order of a schedule's steps.

    Threads: belongs to the one that compiles.

    Parameters
    ----------
    steps : in the order of the schedule, which is one of those allowed
    n_forward : the first step of the backward part
    edges : further pairs (earlier, later)

    Attributes
    ----------
    direct : per step those it must wait for, apart from the barrier between the parts
    before : per step a number whose bit k says that step k must have run
    """

    def __init__(
        self, steps: Sequence[Step], n_forward: int | None = None, edges: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.direct = [set(step.after) for step in steps]
        makers: dict[int, int] = {}
        for time, step in enumerate(steps):
            self.direct[time].update(makers[v] for v in step.reads if v in makers)
            makers.update(dict.fromkeys(step.writes, time))
        for earlier, later in edges:
            self.direct[later].add(earlier)
        self.n_forward = len(steps) if n_forward is None else n_forward
        self.before: list[int] = []
        for time in range(len(steps)):
            self.before.append(self._closed(time))

    def _closed(self, time: int) -> int:
        mask = (1 << self.n_forward) - 1 if time >= self.n_forward else 0
        for earlier in self.direct[time]:
            mask |= self.before[earlier] | 1 << earlier
        return mask

    def add(self, earlier: int, later: int) -> None:
        """One more pair; those of later steps must come after it."""
        self.direct[later].add(earlier)
        self.before[later] |= self.before[earlier] | 1 << earlier

    def refresh(self, time: int) -> None:
        """Takes over what was added to earlier steps."""
        self.before[time] = self._closed(time)


def users_of(steps: Sequence[Step], n_values: int) -> list[list[int]]:
    """Per value the steps that touch it, in the order of the schedule; its writer comes first."""
    users: list[list[int]] = [[] for _ in range(n_values)]
    for time, step in enumerate(steps):
        for v in dict.fromkeys((*step.writes, *step.reads)):
            users[v].append(time)
    return users


def masks_of(users: Sequence[Sequence[int]]) -> list[int]:
    """The same as numbers with a bit per step."""
    return [sum(1 << time for time in steps) for steps in users]


def reuse_edges(steps: Sequence[Step], plan: MemoryPlan, order: Order) -> tuple[tuple[int, int], ...]:
    """Where the plan uses memory again and nothing else orders the two users: (earlier, later) steps.

    The pairs are added to `order` too. Each is needed: none follows from the others and the order.
    """
    users = users_of(steps, 1 + max((v for step in steps for v in (*step.reads, *step.writes)), default=-1))
    memories: dict[int, _Memory] = {}
    edges: list[tuple[int, int]] = []
    for time, step in enumerate(steps):
        order.refresh(time)
        earlier: set[int] = set()
        for v in step.writes:
            place = plan.placements.get(v)
            host = v if place is None else place.host
            start, size = (0, 1) if place is None else (place.offset, place.size)
            memory = memories.setdefault(host, _Memory())
            size = 1 if host >= 0 else size  # an array is taken whole
            for other in memory.claim(start, start + size, v):
                earlier.update(users[other])
        for other_time in sorted(earlier, reverse=True):
            if other_time != time and not order.before[time] >> other_time & 1:
                order.add(other_time, time)
                edges.append((other_time, time))
    return tuple(edges)


class _Memory:
    """Which value lay where last."""

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._values: list[int] = [-1]

    def claim(self, start: int, end: int, value: int) -> list[int]:
        """Gives a range to a value; returns those whose memory that was."""
        if start == end:
            return []
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1)
        found = [v for v in self._values[first:last] if v >= 0]
        starts, values = [start], [value]
        if self._starts[first] < start:
            starts.insert(0, self._starts[first])
            values.insert(0, self._values[first])
        if last == len(self._starts) or self._starts[last] > end:
            starts.append(end)
            values.append(self._values[last - 1])
        self._starts[first:last] = starts
        self._values[first:last] = values
        return found
