# SPDX-License-Identifier: Apache-2.0
"""Checks of a memory plan: every read finds the bytes that were written for its value.

The checks look at the plan's offsets and edges alone and know nothing of how they were found. `check_plan` replays
the schedule; `check_any_order` shows it for all orders in which steps that may run side by side can end up.
"""

from __future__ import annotations

from collections.abc import Sequence

from mx_core.errors import MXNetError
from mx_symbol.memory.plan import MemoryPlan, Placement, Step


def check_plan(
    steps: Sequence[Step], sizes: Sequence[int], external: frozenset[int], plan: MemoryPlan
) -> None:
    """Replays the schedule and raises MXNetError at the first value that would be damaged.

    Each step reads all its inputs from intact memory; then its outputs claim their ranges, which
    overwrites the values there. Outputs may overlap inputs of the same step only as declared.
    """
    intact: dict[int, Placement] = {}
    for time, step in enumerate(steps):
        for value in step.reads:
            if value not in external and value not in intact:
                raise MXNetError(f"step {time} reads value {value}, which is not intact any more")
        written: list[Placement] = []
        for position, value in enumerate(step.writes):
            if value in external:
                place = Placement(value, -1, 0, sizes[value], time, time, value)
                _check_inputs(time, step, position, place, intact)
                written.append(place)
                continue
            place = plan.placements[value]
            if place.size != sizes[value] or place.offset < 0:
                raise MXNetError(f"value {value} has {place.size} bytes at {place.offset}")
            if place.host < 0 and place.offset + place.size > plan.total_bytes:
                raise MXNetError(f"value {value} ends beyond the arena of {plan.total_bytes} bytes")
            for other in written:
                if _overlap(place, other):
                    raise MXNetError(f"step {time} writes values {value} and {other.value} together")
            _check_inputs(time, step, position, place, intact)
            written.append(place)
        for place in written:
            for value in [v for v, other in intact.items() if _overlap(place, other)]:
                del intact[value]
            intact[place.value] = place


def _check_inputs(
    time: int, step: Step, position: int, place: Placement, intact: dict[int, Placement]
) -> None:
    for i, value in enumerate(step.reads):
        other = intact.get(value)
        if other is None or not _overlap(place, other):
            continue
        same = (place.offset, place.size) == (other.offset, other.size)
        if not same or (i, position) not in step.inplace:
            raise MXNetError(f"step {time} writes value {place.value} over value {value}, its input {i}")


def _overlap(a: Placement, b: Placement) -> bool:
    return a.host == b.host and a.offset < b.offset + b.size and b.offset < a.offset + a.size


def check_any_order(
    steps: Sequence[Step],
    sizes: Sequence[int],
    external: frozenset[int],
    plan: MemoryPlan,
    n_forward: int | None = None,
) -> None:
    """Raises MXNetError if two values that share memory may be alive at once in an order that is allowed.

    Allowed is every order in which a step follows those that write what it reads, those it names in `after` and those
    from which `plan.edges` lead to it, and backward follows all of forward. Then of two values that share bytes the
    one must be through, its last reader included, before the other is written: whichever order is taken, or
    the same step reads the one and writes the other in place.
    """
    above = _above(steps, plan.edges, n_forward)
    users: dict[int, set[int]] = {}
    makers: dict[int, int] = {}
    for time, step in enumerate(steps):
        for value in step.reads:
            users.setdefault(value, set()).add(time)
        for value in step.writes:
            users.setdefault(value, set()).add(time)
            makers[value] = time
    places = [plan.placements[v] for v in sorted(makers) if v not in external and sizes[v]]
    places += [Placement(v, -1, 0, sizes[v], 0, 0, v) for v in sorted(makers) if v in external and sizes[v]]
    places.sort(key=lambda place: (place.host, place.offset))
    for i, one in enumerate(places):
        for other in places[i + 1 :]:
            if not _overlap(one, other):
                break
            if not (
                _is_through(one.value, other.value, users, makers, above, steps)
                or _is_through(other.value, one.value, users, makers, above, steps)
            ):
                raise MXNetError(
                    f"values {one.value} and {other.value} share memory and may be alive at the same time"
                )


def _above(steps: Sequence[Step], edges: Sequence[tuple[int, int]], n_forward: int | None) -> list[set[int]]:
    """Per step all that come before it in every order."""
    direct: list[set[int]] = [set(step.after) for step in steps]
    makers: dict[int, int] = {v: time for time, step in enumerate(steps) for v in step.writes}
    for time, step in enumerate(steps):
        direct[time].update(makers[v] for v in step.reads if v in makers)
        if n_forward is not None and time >= n_forward:
            direct[time].update(range(n_forward))
    for earlier, later in edges:
        direct[later].add(earlier)
    above: list[set[int]] = []
    for time in range(len(steps)):
        if any(other >= time for other in direct[time]):
            raise MXNetError(f"step {time} waits for a later one")
        above.append(direct[time].union(*(above[other] for other in direct[time])))
    return above


def _is_through(
    one: int,
    other: int,
    users: dict[int, set[int]],
    makers: dict[int, int],
    above: list[set[int]],
    steps: Sequence[Step],
) -> bool:
    """True if no step uses `one` any more when `other` is written, except the one that writes over it in place."""
    maker = makers[other]
    left = users[one] - above[maker]
    if left == {maker} and makers[one] != maker:
        step = steps[maker]
        position = step.writes.index(other)
        return all((i, position) in step.inplace for i, value in enumerate(step.reads) if value == one)
    return not left
