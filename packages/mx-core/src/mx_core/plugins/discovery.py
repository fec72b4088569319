# SPDX-License-Identifier: Apache-2.0
"""Which plug-ins are installed, and whether their versions fit; imports none of them."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mx_core.build_info import __version__
from mx_core.errors import PluginError
from mx_core.plugins.hookspecs import GROUP, HOOK_API, PluginInfo
from mx_core.plugins.installed import read_installed
from mx_core.plugins.points import Point, normalised
from mx_core.plugins.registries import FIRST_PARTY, Provenance


@dataclass(frozen=True)
class PluginRecord:
    """One installed plug-in and what became of it.

    Attributes
    ----------
    state : str
        `found` (not loaded yet), `loaded`, `blocked` (disabled by the user), `incompatible`
        (made for another version), `broken` (an exception).
    contributions : tuple of (kind, name)
        What it registered; for a broken plug-in what it was about to register.
    hooks : tuple of str
        Hooks its module implements; empty when the module could not be imported.
    seconds : float
        Time that importing it and its hooks took.
    origin : str
        `file:line` of the line of its own that failed; empty where it is not known.
    """

    name: str
    state: str
    distribution: str
    version: str
    module: str
    error: str | None = None
    traceback: str | None = None
    contributions: tuple[tuple[str, str], ...] = ()
    hooks: tuple[str, ...] = ()
    info: PluginInfo = field(default_factory=PluginInfo)
    seconds: float = 0.0
    origin: str = ""

    @property
    def is_first_party(self) -> bool:
        """True for the plug-ins of this project."""
        return self.distribution in FIRST_PARTY

    @property
    def source(self) -> Provenance:
        """The plug-in as registries name it."""
        return Provenance(self.name, self.distribution, self.version)

    def describe(self) -> str:
        """Plug-in, distribution, state and cause on one line."""
        cause = f": {self.error}" if self.error else ""
        return f"plug-in {self.name!r} ({self.distribution} {self.version}) is {self.state}{cause}"


def discover() -> tuple[tuple[PluginRecord, Point], ...]:
    """Installed plug-ins, in an order that does not depend on the order of installation.

    Those of this project come first; within both groups they are sorted by plug-in name, then distribution. A
    distribution found twice on `sys.path` counts once; the second of two distributions that use one plug-in name is
    broken, and so is a distribution whose metadata cannot be read: it counts as a plug-in of its name.
    """
    blocked = disabled()
    owner: dict[str, str] = {}
    result = []
    found = read_installed()
    for damage in found.damaged:
        record = PluginRecord(damage.name, "broken", damage.name, "unknown", "", damage.error)
        if damage.name in blocked:
            record = replace(record, state="blocked", error="disabled by MX_DISABLE_PLUGINS")
        result.append((record, Point(damage.name, "", GROUP, damage.name, "unknown")))
    points = sorted(found.points.items(), key=lambda item: (item[0][1] not in FIRST_PARTY, item[0]))
    for (name, distribution), point in points:
        record = PluginRecord(name, "found", distribution, point.version, point.value)
        if name in blocked or distribution in blocked:
            record = replace(record, state="blocked", error="disabled by MX_DISABLE_PLUGINS")
        elif owner.setdefault(name, distribution) != distribution:
            error = f"distribution {owner[name]!r} brings a plug-in of this name too"
            record = replace(record, state="broken", error=error)
        elif point.group != GROUP:
            error = f"made for hooks {point.group}, mx-core {__version__} has {GROUP}"
            record = replace(record, state="incompatible", error=error)
        else:
            record = _check_requirement(record, point)
        result.append((record, point))
    return tuple(result)


def disabled() -> frozenset[str]:
    """Plug-in or distribution names in MX_DISABLE_PLUGINS (comma-separated)."""
    names = os.environ.get("MX_DISABLE_PLUGINS", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def unknown_disabled(records: Iterable[PluginRecord]) -> dict[str, str]:
    """Names in MX_DISABLE_PLUGINS that nothing installed has, each with the closest one that is, or ''."""
    known = {name for record in records for name in (record.name, record.distribution)}
    unknown = sorted(disabled() - known)
    return {name: next(iter(difflib.get_close_matches(name, known, 1)), "") for name in unknown}


def check_hook_api(wanted: object) -> str | None:
    """Why a module's MX_HOOK_API does not fit, or None when it does.

    Raises
    ------
    PluginError  it is not a pair of integers
    """
    match wanted:
        case (int(major), int(minor)):
            if major == HOOK_API[0] and minor <= HOOK_API[1]:
                return None
            return f"needs hook API {(major, minor)}, mx-core {__version__} has {HOOK_API}"
        case _:
            raise PluginError(f"MX_HOOK_API: expected a pair of integers, got {wanted!r}")


def _requirements(point: Point) -> Iterator[str]:
    """The lines of the distribution's metadata that are about mx-core."""
    for line in point.requires:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name and normalised(name.group()) == "mx-core":
            yield line


def _is_this_version(line: str) -> bool:
    """The requirement names the installed version itself as the one needed or the least."""
    match = re.fullmatch(r"[\w.-]+\s*\(?(?:~=|>=|==)\s*([\w.]+)\)?", line)
    return match is not None and match.group(1) == __version__


def _check_requirement(record: PluginRecord, point: Point) -> PluginRecord:
    lines = [line for line in _requirements(point) if not _is_this_version(line)]
    if not lines:
        return record
    from packaging.requirements import InvalidRequirement, Requirement  # 12 ms, rarely needed

    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as invalid:
            return replace(record, state="broken", error=f"Requires-Dist {line!r}: {invalid}")
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(__version__, prereleases=True):
            error = (
                f"needs mx-core{requirement.specifier}, installed is {__version__}; "
                f"install versions of mx-core and {record.distribution} that belong together"
            )
            return replace(record, state="incompatible", error=error)
    return record
