# SPDX-License-Identifier: Apache-2.0
"""The memory plan of two programs that use one arena, one after the other."""

from __future__ import annotations

from mx_symbol.memory.plan import MemoryPlan


def behind(prepared: MemoryPlan, n_steps: int, kept_bytes: int, running: MemoryPlan) -> MemoryPlan:
    """The plan of what is prepared and of what runs every time, as one.

    Parameters
    ----------
    n_steps : steps of the prepared part; those of the other come after it
    kept_bytes : of the arrays by which the second part gets what the first computes
    """
    first_value = 1 + max((*prepared.names, *prepared.placements), default=-1)
    first_storage = 1 + max((place.storage for place in prepared.placements.values()), default=-1)
    moved = {
        first_value + value: place._replace(
            value=first_value + value,
            storage=first_storage + place.storage,
            birth=n_steps + place.birth,
            death=n_steps + place.death,
            host=place.host if place.host < 0 else first_value + place.host,
        )
        for value, place in running.placements.items()
    }
    return MemoryPlan(
        prepared.placements | moved,
        max(prepared.total_bytes, running.total_bytes),
        prepared.naive_bytes + running.naive_bytes,
        max(prepared.live_bytes, running.live_bytes),
        prepared.names | {first_value + value: name for value, name in running.names.items()},
        None if running.n_forward is None else n_steps + running.n_forward,
        tuple((n_steps + earlier, n_steps + later) for earlier, later in running.edges),
        n_steps,
        kept_bytes,
    )
