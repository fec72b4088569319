# SPDX-License-Identifier: Apache-2.0
"""A proof for one memory plan: every read finds the bytes its value was written with.

The check replays the schedule on the plan's offsets alone and knows nothing of how they were found.
"""

from __future__ import annotations

from collections.abc import Sequence

from mx_core.errors import MXNetError
from mx_symbol.memory import MemoryPlan, Placement, Step


def check_plan(
    steps: Sequence[Step], sizes: Sequence[int], external: frozenset[int], plan: MemoryPlan
) -> None:
    """Replays the schedule and raises MXNetError at the first value that would be damaged.

    Each step reads all its inputs from intact memory; then its outputs claim their ranges, which
    damages whatever lay there. Outputs may overlap inputs of the same step only as declared.
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
