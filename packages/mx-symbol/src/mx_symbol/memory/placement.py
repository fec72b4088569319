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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType

from mx_symbol._core import ALIGNMENT, Blocks
from mx_symbol.memory.plan import MemoryPlan, Step

#: above this many blocks only the linear heuristic runs
GREEDY_LIMIT = 3000
#: most placements that are tried when the heuristics leave gaps
ROUNDS = 16


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
    offsets, total = shared.place(GREEDY_LIMIT, ROUNDS, None if flow is None else _lives(shared, flow))
    placements = shared.placements(offsets)
    naive = sum([-(-place.size // ALIGNMENT) * ALIGNMENT for place in placements.values()])
    return MemoryPlan(placements, total, naive, shared.live)


def _lives(shared: Blocks, flow: DataFlow) -> list[tuple[bytes, bytes]]:
    """Per block of the arena the steps that must run before it is written, and those that touch it, as bits."""
    n_bytes = -(-len(flow.before) // 8)
    lives = []
    for values, birth in shared.in_arena:
        users = reduce(or_, [flow.users[value] for value in values])
        lives.append((flow.before[birth].to_bytes(n_bytes, "little"), users.to_bytes(n_bytes, "little")))
    return lives
