# SPDX-License-Identifier: Apache-2.0
"""The memory plan: where in one arena every intermediate value lies, and when.

Three steps. Liveness: a value is born when its node runs and dies with its last reader. In-place:
an output takes over the block of an input that dies there, where the operator allows it. Offsets:
blocks whose lifetimes overlap get disjoint ranges, by the better of two known heuristics, greedy
by size (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020) and
best fit in schedule order with coalescing (Knuth, TAOCP 1, 2.5), which is linear and alone used for
large graphs. Where both leave gaps, greedy placement is repeated, the longest-lived first, and what came
to lie highest earlier each time, as iterated schedulers move what came out worst. Outputs, arguments,
auxiliary states and gradients are the caller's and never planned; but values that end in place in a
gradient that is written lie in its array from the start, as the partial sums of a shared weight's
gradient do.

In the mode "least memory" blocks share memory wherever the schedule separates them. In the mode "most
parallel" they share only where the steps that touch the one come before the step that makes the other in every
order that data flow allows, so that no branch ever waits for another's memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mx_symbol._core import ALIGNMENT, Blocks
from mx_symbol.memory.plan import MemoryPlan, Step

#: above this many blocks only the linear heuristic runs
GREEDY_LIMIT = 3000
#: most placements that are tried when the heuristics leave gaps
ROUNDS = 16
#: freed ranges that the linear heuristic looks at where memory is shared by data flow alone
RANGES = 256


@dataclass(slots=True)
class _Block:
    """Values that share memory one after the other."""

    size: int
    birth: int
    death: int
    first: int  # the steps that must run before the block is written, as bits
    users: int  # the steps that touch it, as bits
    offset: int = 0


@dataclass(frozen=True)
class DataFlow:
    """What every order that data flow allows has in common.

    Attributes
    ----------
    before : per step the steps that must have run, as bits
    users : per value the steps that touch it, as bits
    """

    before: Sequence[int]
    users: Sequence[int]

    def may_take_over(self, value: int, time: int) -> bool:
        """True when a value's other users have run before a step in every order."""
        return not self.users[value] & ~(self.before[time] | 1 << time)


def plan_memory(
    steps: Sequence[Step],
    sizes: Sequence[int],
    external: frozenset[int] = frozenset(),
    hosts: Mapping[int, int] = MappingProxyType({}),
    flow: DataFlow | None = None,
) -> MemoryPlan:
    """Plans a schedule.

    Parameters
    ----------
    steps : in the order in which they run
    sizes : bytes per value
    external : values that have memory of their own
    hosts : those of them whose memory may be used before they are written, and from which step on
    flow : given, values share memory only where data flow orders those who touch them
    """
    shared = Blocks(steps, sizes, external, dict(hosts), None if flow is None else flow.may_take_over)
    if flow is None:
        offsets, total = shared.place(GREEDY_LIMIT, ROUNDS)
    else:
        offsets, total = _placed_by_flow(shared, flow)
    placements = shared.placements(offsets)
    naive = sum([-(-place.size // ALIGNMENT) * ALIGNMENT for place in placements.values()])
    return MemoryPlan(placements, total, naive, shared.live)


def _in_some_order(a: _Block, b: _Block) -> bool:
    return bool(a.users & ~b.first and b.users & ~a.first)


def _placed_by_flow(shared: Blocks, flow: DataFlow) -> tuple[list[int], int]:
    """Offsets of the blocks, and the size of the arena."""
    blocks: list[_Block] = []
    for values, size, birth, death in shared.in_arena:
        users = 0
        for value in values:
            users |= flow.users[value]
        blocks.append(_Block(size, birth, death, flow.before[birth], users))
    best = _best_ordered_fit(blocks)
    offsets = [block.offset for block in blocks]
    if len(blocks) <= GREEDY_LIMIT:
        for total in _greedy_totals(blocks):
            if total < best:
                best, offsets = total, [block.offset for block in blocks]
            if best <= shared.live:
                break
    return offsets, best


def _greedy_totals(blocks: Sequence[_Block]) -> Iterator[int]:
    """Places the blocks again and again, each time in another order; yields the size each takes."""
    yield _greedy(sorted(blocks, key=lambda b: (-b.size, b.birth - b.death, b.birth)))
    order = sorted(blocks, key=lambda b: (b.birth - b.death, -b.size))
    for _ in range(ROUNDS):
        yield _greedy(order)
        top = max(range(len(order)), key=lambda i: order[i].offset + order[i].size)
        order.insert(top // 2, order.pop(top))


def _best_ordered_fit(blocks: Sequence[_Block]) -> int:
    """In schedule order, into the smallest range that fits, of those whose users have run before in any order.

    Ranges are not joined: each remembers who used it. Only the latest are looked at.
    """
    total = 0
    free: deque[tuple[int, int, int]] = deque(maxlen=RANGES)  # size, offset, users
    ending: dict[int, list[_Block]] = {}
    now = 0
    for block in blocks:
        while now < block.birth:
            free.extend((dead.size, dead.offset, dead.users) for dead in ending.pop(now, ()))
            now += 1
        fitting = [r for r in free if r[0] >= block.size > 0 and not r[2] & ~block.first]
        if fitting:
            size, block.offset, users = found = min(fitting)
            free.remove(found)
            if size > block.size:
                free.append((size - block.size, block.offset + block.size, users))
        elif block.size:
            block.offset, total = total, total + block.size
        ending.setdefault(block.death, []).append(block)
    return total


def _greedy(order: Sequence[_Block]) -> int:
    """One after the other, each at the lowest offset free throughout its life."""
    total = 0
    placed: list[_Block] = []  # sorted by offset
    keys: list[int] = []
    for block in order:
        if block.size == 0:
            block.offset = 0
            continue
        offset = 0
        for other in placed:
            if not _in_some_order(block, other):
                continue
            if other.offset - offset >= block.size:
                break
            offset = max(offset, other.offset + other.size)
        block.offset = offset
        index = bisect_left(keys, offset)
        keys.insert(index, offset)
        placed.insert(index, block)
        total = max(total, offset + block.size)
    return total
