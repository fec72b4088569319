# SPDX-License-Identifier: Apache-2.0
"""Memory plans: the steps of a schedule, the place of each value, and its lifetime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mx_core.context import Context


class Step(NamedTuple):
    """One node of a schedule, in terms of value numbers.

    Attributes
    ----------
    reads : values whose contents are read, with repetitions, in the order of the inputs
    writes : values produced
    inplace : (position in `reads`, position in `writes`) that may share memory
    after : earlier steps that it must follow for another reason than what it reads
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...] = ()
    after: tuple[int, ...] = ()


class Placement(NamedTuple):
    """Where a value lies and when it is alive (steps, both inclusive).

    `host` is the external value in whose array it lies, at offset 0; −1 is the arena.
    """

    value: int
    storage: int
    offset: int
    size: int
    birth: int
    death: int
    host: int = -1


@dataclass(frozen=True)
class MemoryPlan:
    """The result of planning.

    Attributes
    ----------
    placements : per planned value
    total_bytes : size of the arena
    naive_bytes : what a block per value would take
    live_bytes : the largest sum of sizes alive at one step, in-place sharing counted once: no plan
        for this schedule can be smaller
    names : per value, for display
    n_forward : the first step of the backward part, where there is one
    edges : pairs of steps (earlier, later) that must keep their order only because the later one uses memory of
        the earlier one again; empty for a plan whose steps run one after the other
    n_prepared : so many first steps, the prepared ones, run only after something that they read was written
    kept_bytes : size of the arrays in which prepared steps keep what the others read of them
    """

    placements: dict[int, Placement]
    total_bytes: int
    naive_bytes: int
    live_bytes: int
    names: dict[int, str] = field(default_factory=dict)
    n_forward: int | None = None
    edges: tuple[tuple[int, int], ...] = ()
    n_prepared: int = 0
    kept_bytes: int = 0

    def to_svg(self) -> str:
        """A drawing of the plan: where each value lies in the arena, and when; an SVG document."""
        from mx_symbol.memory.drawing import svg

        return svg(self)

    def __str__(self) -> str:
        lines = [
            f"{readable(self.total_bytes)} planned, "
            + f"{readable(self.live_bytes)} largest live set, "
            + f"{readable(self.naive_bytes)} without sharing"
        ]
        if self.n_prepared:
            lines.append(
                f"  steps 0 to {self.n_prepared - 1} are prepared: they run when something that they read was "
                f"written, and keep {readable(self.kept_bytes)} in arrays of their own"
            )
        for place in sorted(self.placements.values(), key=lambda p: (p.birth, p.offset)):
            name = self.names.get(place.value, f"value {place.value}")
            lines.append(
                f"  [{place.birth:5d}, {place.death:5d}] at {place.offset:12d} "
                f"{place.size:12d} bytes, storage {place.storage:5d}: {name}"
                + (f", in {self.names.get(place.host, place.host)}" if place.host >= 0 else "")
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class PlacedPlan:
    """The memory plans of several devices.

    Attributes
    ----------
    devices : the plan of each one's arena
    crossing : bytes per device that values take which come from other devices or leave for them
    """

    devices: dict[Context, MemoryPlan]
    crossing: dict[Context, int]

    @property
    def total_bytes(self) -> int:
        """Size of all arenas."""
        return sum(plan.total_bytes for plan in self.devices.values())

    @property
    def naive_bytes(self) -> int:
        """What a block per value would take."""
        return sum(plan.naive_bytes for plan in self.devices.values())

    @property
    def live_bytes(self) -> int:
        """The sum of the devices' largest live sets."""
        return sum(plan.live_bytes for plan in self.devices.values())

    def __str__(self) -> str:
        return "\n".join(
            f"{context}: {readable(self.crossing[context])} to and from other devices, {plan}"
            for context, plan in self.devices.items()
        )

    def to_svg(self) -> str:
        """The plans drawn one below the other; an SVG document."""
        from mx_symbol.memory.drawing import stacked

        return stacked({str(context): plan for context, plan in self.devices.items()})


def readable(n: int) -> str:
    """A number of bytes as text."""
    return f"{n / 2**20:.2f} MiB" if n >= 2**20 else f"{n / 2**10:.2f} KiB"
