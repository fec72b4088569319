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

In the mode "least memory" blocks share whatever the schedule separates. In the mode "most parallel" they share only
where the steps that touch the one come before the step that makes the other in every order that data flow
allows, so that no branch ever waits for another's memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mx_symbol import _core
from mx_symbol.memory.plan import MemoryPlan, Placement, Step

#: offsets are multiples of this many bytes
ALIGNMENT = 64
#: above this many blocks only the linear heuristic runs
GREEDY_LIMIT = 3000
#: most placements that are tried when the heuristics leave gaps
ROUNDS = 16
#: freed ranges that the linear heuristic looks at where memory is shared by data flow alone
RANGES = 256


@dataclass(slots=True)
class _Block:
    """Values that share memory one after the other."""

    values: list[int]
    size: int
    birth: int
    death: int
    offset: int = 0
    host: int = -1
    first: int = 0  # the steps that must run before the block is written, as bits
    users: int = 0  # the steps that touch it, as bits


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
    deaths = _last_reads(steps, len(sizes))
    blocks = _blocks(steps, sizes, external, hosts, deaths, flow)
    planned = [block for block in blocks if block.host < 0]
    live = _largest_live_set(planned, len(steps))
    total = _place(planned, live, flow is not None)
    placements = {}
    for number, block in enumerate(blocks):
        for value in block.values:
            birth, death = deaths[value]
            placements[value] = Placement(
                value, number, block.offset, sizes[value], birth, max(birth, death), block.host
            )
    naive = sum(_aligned(sizes[value]) for value in placements)
    return MemoryPlan(placements, total, naive, live)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _last_reads(steps: Sequence[Step], n_values: int) -> list[tuple[int, int]]:
    """Per value the step that writes it and the last one that reads it (−1: none)."""
    births, deaths = [-1] * n_values, [-1] * n_values
    for time, step in enumerate(steps):
        for value in step.writes:
            births[value] = time
        for value in step.reads:
            deaths[value] = time
    return list(zip(births, deaths, strict=True))


def _blocks(
    steps: Sequence[Step],
    sizes: Sequence[int],
    external: frozenset[int],
    hosts: Mapping[int, int],
    times: Sequence[tuple[int, int]],
    flow: DataFlow | None,
) -> list[_Block]:
    """One block per value, except where an output takes over the block of an input.

    A block that an external value takes over lies in its memory: nothing else does until then, because
    an external value is written once.
    """
    blocks: list[_Block] = []
    owner: dict[int, _Block] = {}
    known: dict[int, dict[int, set[int]]] = {}  # by identity of the pairs, which steps that are alike share
    for time, step in enumerate(steps):
        taken: set[int] = set()
        allowed = known.get(id(step.inplace))
        if allowed is None:
            allowed = known[id(step.inplace)] = _takers(step.inplace)
        for position, value in enumerate(step.writes):
            if value in external and value not in hosts:
                continue
            donor = _donor(step, position, allowed.get(position), sizes, times, time, owner, taken)
            if donor is not None and flow is not None and not _all_before(flow, donor, time):
                donor = None
            if value in external:
                if donor is not None and owner[donor].birth >= hosts[value]:
                    taken.add(donor)
                    owner[donor].host = value
                continue
            death = max(time, times[value][1])
            if donor is None:
                block = _Block([value], _aligned(sizes[value]), time, death)
                block.first = 0 if flow is None else flow.before[time]
                blocks.append(block)
            else:
                taken.add(donor)
                block = owner[donor]
                block.values.append(value)
                block.death = death
            if flow is not None:
                block.users |= flow.users[value]
            owner[value] = block
    return blocks


def _takers(pairs: Sequence[tuple[int, int]]) -> dict[int, set[int]]:
    """The inputs whose memory each output may take over."""
    allowed: dict[int, set[int]] = {}
    for i, o in pairs:
        allowed.setdefault(o, set()).add(i)
    return allowed


def _all_before(flow: DataFlow, value: int, time: int) -> bool:
    """True when a value's other users have run before a step in every order."""
    return not flow.users[value] & ~(flow.before[time] | 1 << time)


def _donor(
    step: Step,
    position: int,
    allowed: set[int] | None,
    sizes: Sequence[int],
    times: Sequence[tuple[int, int]],
    time: int,
    owner: dict[int, _Block],
    taken: set[int],
) -> int | None:
    """The one of the allowed inputs whose memory output `position` takes over, or None."""
    if allowed is None:
        return None
    target = step.writes[position]
    for i in sorted(allowed):
        value = step.reads[i]
        if (
            value in owner
            and value not in taken
            and times[value][1] == time
            and sizes[value] == sizes[target]
            # another position that reads the same memory must tolerate the overwriting too
            and all(j in allowed for j, other in enumerate(step.reads) if other == value)
        ):
            return value
    return None


def _in_some_order(a: _Block, b: _Block) -> bool:
    return bool(a.users & ~b.first and b.users & ~a.first)


def _place(blocks: Sequence[_Block], live: int, by_flow: bool) -> int:
    """Gives every block an offset; returns the size of the arena, which is no less than `live`."""
    if by_flow:
        return _place_by_flow(blocks, live)
    lives = [(block.birth, block.death, block.size) for block in blocks]
    offsets, total = _core.place(lives, live, max(GREEDY_LIMIT, 0), ROUNDS)
    for block, offset in zip(blocks, offsets, strict=True):
        block.offset = offset
    return total


def _place_by_flow(blocks: Sequence[_Block], live: int) -> int:
    best = _best_ordered_fit(blocks)
    offsets = [block.offset for block in blocks]
    if len(blocks) <= GREEDY_LIMIT:
        for total in _greedy_totals(blocks):
            if total < best:
                best, offsets = total, [block.offset for block in blocks]
            if best <= live:
                break
    for block, offset in zip(blocks, offsets, strict=True):
        block.offset = offset
    return best


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


def _largest_live_set(blocks: Sequence[_Block], n_steps: int) -> int:
    change = [0] * (n_steps + 1)
    for block in blocks:
        change[block.birth] += block.size
        change[block.death + 1] -= block.size
    largest = live = 0
    for delta in change:
        live += delta
        largest = max(largest, live)
    return largest
