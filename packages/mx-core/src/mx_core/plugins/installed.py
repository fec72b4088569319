# SPDX-License-Identifier: Apache-2.0
"""Entry points of installed distributions, some of which may have metadata that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mx_core.plugins.hookspecs import GROUP
from mx_core.plugins.points import Point, Unusual, in_folders, normalised
from mx_core.record import Record
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint, EntryPoints

_GROUPS = re.compile(r"mx\.plugins\.v\d+")


class Damage(Record):
    """A distribution whose metadata cannot be read, such as that of a damaged wheel on `sys.path`."""

    name: str
    error: str


@dataclass
class Installed:
    """Entry points of plug-ins, by plug-in and distribution."""

    points: dict[tuple[str, str], Point] = field(default_factory=dict)
    damaged: list[Damage] = field(default_factory=list)


def read_installed() -> Installed:
    """What is installed; of several versions of hooks the one spoken here."""
    found = Installed()
    try:
        points = in_folders(_GROUPS)
    except Unusual:
        points = _unusual(found)
    for point in sorted(points, key=lambda point: (point.group != GROUP, point.group)):
        found.points.setdefault((point.name, point.distribution), point)
    return found


def _unusual(found: Installed) -> list[Point]:
    """Entry points of whatever is installed; what cannot be read is noted."""
    everything, found.damaged = _all_points()
    points = []
    for group in filter(_GROUPS.fullmatch, everything.groups):
        for point in everything.select(group=group):
            try:
                points.append(_point(point))
            except Exception as error:
                let_pass(error)
                damage = _damage(point.dist, error)
                if damage not in found.damaged:
                    found.damaged.append(damage)
    return points


def _point(point: EntryPoint) -> Point:
    if point.dist is None:
        return Point(point.name, point.value, point.group, "unknown", "unknown")
    name, version = normalised(point.dist.name), point.dist.version
    return Point(point.name, point.value, point.group, name, version, tuple(point.dist.requires or ()))


def misnamed() -> dict[str, str]:
    """Entry points of a group that looks like that of plug-ins and is none: DISTRIBUTION: NAME -> what is wrong."""
    everything, _ = _all_points()
    groups = sorted(
        group
        for group in everything.groups
        if group.startswith("mx.plugin") and not re.fullmatch(r"mx\.plugins\.v\d+", group)
    )
    return {
        f"{_distribution(point)}: {point.name}": f"entry-point group {group!r}: expected {GROUP!r}"
        for group in groups
        for point in everything.select(group=group)
    }


def _distribution(point: EntryPoint) -> str:
    return normalised(point.dist.name) if point.dist else "unknown"


def _all_points() -> tuple[EntryPoints, list[Damage]]:
    from importlib.metadata import EntryPoints, entry_points

    try:
        return cast("EntryPoints", entry_points()), []  # what 3.11 gives has the methods of one
    except Exception as error:  # one distribution fails it for all
        let_pass(error)
    damaged: list[Damage] = []
    return EntryPoints(_points_one_by_one(damaged)), damaged


def _points_one_by_one(damaged: list[Damage]) -> Iterator[EntryPoint]:
    """Those of each distribution that can be read; of two of one name those of the first on `sys.path`."""
    from importlib.metadata import distributions

    seen: set[str] = set()
    for distribution in distributions():
        try:
            name = normalised(distribution.name)
            points = [] if name in seen else list(distribution.entry_points)
        except Exception as error:
            let_pass(error)
            damaged.append(_damage(distribution, error))
        else:
            seen.add(name)
            yield from points


def _damage(distribution: Distribution | None, error: Exception) -> Damage:
    """The distribution is called as its folder of metadata is; its name may be what cannot be read."""
    where = Path(str(getattr(distribution, "_path", "unknown")))
    name = normalised(re.split(r"-\d|\.(?:dist|egg)-info", where.name)[0])
    kind = type(error).__name__
    what = f"zlib.error: {error}" if kind == "error" else f"{kind}: {error}"
    return Damage(name, f"its metadata at {where} cannot be read ({what}); install it again or remove it")
