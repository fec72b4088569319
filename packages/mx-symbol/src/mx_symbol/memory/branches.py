# SPDX-License-Identifier: Apache-2.0
"""Branches: the steps of a schedule as chains of which independent ones may run side by side.

A branch is what one worker does without asking; between branches the engine keeps the order. So branches
are as long as the order allows: a step goes on with the branch of a step it waits for, if the branch
waits for nothing new by that. A branch ends where another branches off, and a branch that is not worth a hand-over
stays with the branch it comes from.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from mx_symbol._core import longest_path
from mx_symbol.memory.order import Order
from mx_symbol.memory.plan import Step

#: what a branch must take, in microseconds of one core, to be worth a worker
WORTH = 20.0
#: what handing a branch to a worker takes, and starting a team of threads for one kernel
HAND_OVER, TEAM = 2.0, 5.0
#: kernels shorter than this run on one core
TEAM_WORTH = 20.0
#: how much faster side by side must look, since both times are estimates
MARGIN = 0.9


@dataclass(frozen=True)
class Branch:
    """Steps that run one after the other.

    Attributes
    ----------
    steps : in the order of the schedule
    after : numbers of the branches that must have run
    threads : how many threads a kernel may use; 0 is all, because nothing runs in parallel
    """

    steps: tuple[int, ...]
    after: tuple[int, ...]
    threads: int


def make_branches(
    order: Order, microseconds: Sequence[float], n_prepared: int, cores: int
) -> tuple[Branch, ...]:
    """The branches of a schedule, each after those it waits for; none reaches over the parts' border.

    Parameters
    ----------
    order : with the edges that memory adds
    microseconds : of one core, per step
    n_prepared : so many steps at the beginning make one branch
    cores : to be shared by what runs side by side
    """
    chains: list[list[int]] = []
    for begin, end in ((0, order.n_forward), (order.n_forward, len(microseconds))):
        runs = _runs(order, begin, end, n_prepared)
        chains += _without_splinters(order, runs, microseconds)
    return _with_threads(_linked(order, chains), microseconds, cores)


def pays(branches: Sequence[Branch], microseconds: Sequence[float], cores: int) -> bool:
    """True when the branches side by side look faster than the steps one after the other on all cores."""
    together = sum(_time(m, cores) for m in microseconds)
    return _makespan(branches, microseconds, cores) < MARGIN * together


def may_pay(
    microseconds: Sequence[float], cores: int, steps: Sequence[Step] = (), n_forward: int | None = None
) -> bool:
    """False when no branches of such steps could pay.

    The kernels keep all cores busy as it is, or most steps wait for each other.
    """
    times = [_time(m, cores) for m in microseconds]
    least = max(sum(microseconds) / cores, longest_path(steps, times, n_forward))
    return cores > 1 and least < MARGIN * sum(times)


def _time(microseconds: float, threads: int) -> float:
    if threads <= 1 or microseconds < TEAM_WORTH:
        return microseconds
    return microseconds / threads + TEAM


def _runs(order: Order, begin: int, end: int, n_prepared: int) -> list[list[int]]:
    """Chains, cut where others branch off."""
    chains: list[list[int]] = []
    home: dict[int, int] = {}
    cuts: set[int] = set()
    for time in range(begin, end):
        needed = {t for t in order.direct[time] if t >= begin}
        chain = -1
        if 0 < time < n_prepared:
            chain = 0
        for t in sorted(needed, reverse=True):
            if chain >= 0 or t < n_prepared:
                break
            near = chains[home[t]]
            # what the chain's first step had to wait for, the chain need not wait for again; prepared steps come first
            if near[-1] == t and all(
                u < n_prepared or home[u] == home[t] or order.before[near[0]] >> u & 1 for u in needed
            ):
                chain = home[t]
        if chain < 0:
            chain = len(chains)
            chains.append([])
        cuts.update(t for t in needed if home[t] != chain)
        home[time] = chain
        chains[chain].append(time)
    runs: list[list[int]] = []
    for chain_steps in chains:
        run: list[int] = []
        for time in chain_steps:
            run.append(time)
            if time in cuts and time >= n_prepared:
                runs.append(run)
                run = []
        if run:
            runs.append(run)
    return runs


def _needs(order: Order, home: dict[int, int], steps: Sequence[int], own: int) -> set[int]:
    return {home[t] for time in steps for t in order.direct[time] if t in home} - {own}


def _sorted_runs(order: Order, runs: Sequence[list[int]]) -> list[list[int]]:
    """Each after those it waits for, the earliest in the schedule first."""
    home = {time: i for i, run in enumerate(runs) for time in run}
    needs = [_needs(order, home, run, i) for i, run in enumerate(runs)]
    users: list[list[int]] = [[] for _ in runs]
    for i, needed in enumerate(needs):
        for other in needed:
            users[other].append(i)
    waiting = [len(needed) for needed in needs]
    ready = [(run[0], i) for i, run in enumerate(runs) if not waiting[i]]
    heapq.heapify(ready)
    result = []
    while ready:
        i = heapq.heappop(ready)[1]
        result.append(runs[i])
        for user in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (runs[user][0], user))
    return result


def _without_splinters(
    order: Order, runs: Sequence[list[int]], microseconds: Sequence[float]
) -> list[list[int]]:
    """Appends branches that are too small for a worker to a branch that they wait for, if it is the only one.

    Other branches then wait longer, so a branch grows only up to a limit.
    """
    result: list[list[int]] = []
    home: dict[int, int] = {}
    above: list[int] = []
    taken: list[float] = []
    for run in _sorted_runs(order, runs):
        takes = sum(microseconds[time] for time in run)
        needed = _needs(order, home, run, -1)
        target = -1
        for near in sorted(needed, reverse=True):
            others = needed - {near}
            if taken[near] + takes < WORTH and all(above[near] >> other & 1 for other in others):
                target = near
                break
        if target < 0:
            target = len(result)
            result.append([])
            taken.append(0.0)
            above.append(0)
            for near in needed:
                above[target] |= above[near] | 1 << near
        else:
            taken[target] += takes
        result[target] += run
        home.update(dict.fromkeys(run, target))
    return _sorted_runs(order, [sorted(run) for run in _joined(order, result)])


def _joined(order: Order, runs: Sequence[list[int]]) -> list[list[int]]:
    """Merges two branches if one waits for the other and no other branch joins or leaves between."""
    home = {time: i for i, run in enumerate(runs) for time in run}
    needs = [_needs(order, home, run, i) for i, run in enumerate(runs)]
    users = [0] * len(runs)
    for needed in needs:
        for other in needed:
            users[other] += 1
    result: list[list[int]] = []
    place: dict[int, int] = {}
    for i, run in enumerate(runs):
        only = next(iter(needs[i])) if len(needs[i]) == 1 else -1
        if only >= 0 and users[only] == 1:
            place[i] = place[only]
            result[place[i]] += run
        else:
            place[i] = len(result)
            result.append(list(run))
    return result


def _linked(order: Order, chains: Sequence[list[int]]) -> list[Branch]:
    home = {time: i for i, chain in enumerate(chains) for time in chain}
    made = []
    for i, chain in enumerate(chains):
        same_part = chain[0] >= order.n_forward
        needed = {
            home[t] for time in chain for t in order.direct[time] if (t >= order.n_forward) == same_part
        }
        made.append(Branch(tuple(chain), tuple(sorted(needed - {i})), 0))
    return made


def _with_threads(
    branches: Sequence[Branch], microseconds: Sequence[float], cores: int
) -> tuple[Branch, ...]:
    """Shares the cores among the branches that would run at the same time if each had one."""
    starts: list[float] = []
    ends: list[float] = []
    for branch in branches:
        start = max((ends[i] for i in branch.after), default=0.0)
        starts.append(start)
        ends.append(start + sum(microseconds[t] for t in branch.steps))
    changes = sorted({*starts, *ends})
    heavy = [end - start >= WORTH for start, end in zip(starts, ends, strict=True)]
    place = {at: i for i, at in enumerate(changes)}
    delta = [0] * (len(changes) + 1)
    for start, end, counts in zip(starts, ends, heavy, strict=True):
        if counts:
            delta[place[start]] += 1
            delta[place[end]] -= 1
    busy, work = 0, [0.0]  # integral of how many run
    for i, at in enumerate(changes[:-1]):
        busy += delta[i]
        work.append(work[-1] + busy * (changes[i + 1] - at))
    result = []
    for branch, start, end in zip(branches, starts, ends, strict=True):
        width = (work[place[end]] - work[place[start]]) / (end - start) if end > start else 1.0
        share = max(round(cores / max(width, 1.0)), 1)
        result.append(Branch(branch.steps, branch.after, 0 if share >= cores else share))
    return tuple(result)


def _makespan(branches: Sequence[Branch], microseconds: Sequence[float], cores: int) -> float:
    """Time of a run in which each branch holds its cores; branches start in order, as soon as they can."""
    ends: list[float] = []
    free = [0.0] * cores
    for branch in branches:
        threads = branch.threads or cores
        takes = HAND_OVER + sum(_time(microseconds[t], threads) for t in branch.steps)
        free.sort()
        start = max(max((ends[i] for i in branch.after), default=0.0), free[threads - 1])
        free[:threads] = [start + takes] * threads
        ends.append(start + takes)
    return max(ends, default=0.0)
