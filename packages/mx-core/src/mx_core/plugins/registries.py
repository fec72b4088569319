# SPDX-License-Identifier: Apache-2.0
"""Registries that know the source of every entry, and refuse duplicates by naming both sources."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mx_core.errors import PluginError
from mx_core.record import Record

#: Distributions of this project. Their plug-ins load first: a stranger's duplicate hurts the stranger.
FIRST_PARTY = frozenset(
    ("mx-core", "mx-engine", "mx-storage", "mx-operators", "mx-operators-cpu", "mx-operators-cuda", "mx-ndarray",
     "mx-symbol", "mx-kvstore", "mx-io", "mx-train", "mx-gluon")
)  # fmt: skip


class Provenance(Record):
    """Who is registering."""

    plugin: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"plug-in {self.plugin!r} ({self.distribution} {self.version})"


@dataclass(frozen=True)
class Entry:
    """One contribution and where it came from.

    `value` is a record of `mx_core.plugins.specs` with the arguments of `registry.add` (for operators the
    class, for kernels a `mx_core.kernels.KernelSpec`); `origin` is `file:line` of that call.
    """

    kind: str
    name: str
    value: Any
    source: Provenance
    origin: str
    aliases: tuple[str, ...] = ()

    @property
    def plugin(self) -> str:
        """Name of the plug-in."""
        return self.source.plugin

    @property
    def distribution(self) -> str:
        """Name of the distribution that ships the plug-in."""
        return self.source.distribution

    @property
    def is_first_party(self) -> bool:
        """True for contributions of this project."""
        return self.source.distribution in FIRST_PARTY

    @property
    def version(self) -> str:
        """Version of that distribution."""
        return self.source.version

    def __str__(self) -> str:
        return f"{self.source} at {self.origin}"


class Registry:
    """Entries of one kind by name and alias. Only the plug-in loader changes it.

    Threads: reading is safe from any thread.
    """

    #: Kinds of which MXNet looks names up without regard to case.
    CASE_INSENSITIVE = frozenset({"augmenters", "initializers", "kvstores", "metrics", "optimizers"})

    def __init__(self, kind: str, hint: Callable[[str, str], str] | None = None) -> None:
        self.kind = kind
        self._hint = hint
        self._entries: dict[str, Entry] = {}
        self._sorted: tuple[Entry, ...] | None = ()
        self._by_key: dict[str, Entry] = {}

    def _key(self, name: str) -> str:
        return name.lower() if self.kind in self.CASE_INSENSITIVE else name

    def get(self, name: str) -> Entry:
        """The entry of this name or alias.

        Raises
        ------
        PluginError  there is none; says what there is, and which plug-in did not load
        """
        entry = self._by_key.get(self._key(name)) if isinstance(name, str) else None
        if entry is None:
            raise PluginError(self._absent(name))
        return entry

    def names(self) -> tuple[str, ...]:
        """Names without aliases, sorted."""
        return tuple(sorted(self._entries))

    def items(self) -> tuple[Entry, ...]:
        """Entries, each once, sorted by name; the same tuple until there are others."""
        known = self._sorted
        if known is None:
            known = self._sorted = tuple(self._entries[name] for name in self.names())
        return known

    def in_order(self) -> tuple[Entry, ...]:
        """Entries, each once, in the order of loading: the project's own first."""
        return tuple(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._key(name) in self._by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {len(self)} entries)"

    def _absent(self, name: Any) -> str:
        what = self.kind.replace("_", " ")
        known = ", ".join(self.names()) or "none"
        close = difflib.get_close_matches(str(name), self._by_key, 1)
        text = f"{name!r} is not among the registered {what}: {known}."
        if close:
            text += f" Did you mean {close[0]!r}?"
        hint = self._hint(self.kind, str(name)) if self._hint else ""
        return f"{text} {hint}" if hint else text

    def check(self, entry: Entry) -> None:
        """Raises PluginError, naming both sources, when a name of `entry` is taken."""
        for name in (entry.name, *entry.aliases):
            taken = self._by_key.get(self._key(name))
            if taken is not None:
                raise duplicate(self.kind, name, taken, entry)

    def commit(self, entry: Entry) -> None:
        """Adds an entry that `check` accepted."""
        self._entries[entry.name] = entry
        self._sorted = None
        for name in (entry.name, *entry.aliases):
            self._by_key[self._key(name)] = entry


def duplicate(kind: str, name: str, first: Entry, second: Entry) -> PluginError:
    """The error for a name two plug-ins, or one plug-in twice, registered."""
    # Who left out one of ours would lose all that it registers.
    others = [entry.plugin for entry in (first, second) if not entry.is_first_party]
    cure = ""
    if others and first.plugin != second.plugin:
        cure = f"; rename one of them, or leave out a plug-in with MX_DISABLE_PLUGINS={' or ='.join(others)}"
    return PluginError(f"{kind.replace('_', ' ')}: {name!r} is registered by {first} and by {second}{cure}")


class Transaction:
    """What one plug-in registers, staged until all of it has been checked."""

    def __init__(self, source: Provenance) -> None:
        self.source = source
        self.staged: list[Entry] = []

    def stage(self, kind: str, name: str, value: Any, aliases: tuple[str, ...], origin: str) -> None:
        """Takes one contribution."""
        if not isinstance(name, str) or not name:
            raise PluginError(f"{kind}: expected a non-empty name, got {name!r}")
        self.staged.append(Entry(kind, name, value, self.source, origin, aliases))

    def commit(self, registries: dict[str, Registry]) -> None:
        """Moves everything into the registries, or raises and moves nothing."""
        trial: dict[str, Registry] = {}
        for entry in self.staged:
            registries[entry.kind].check(entry)
            own = trial.setdefault(entry.kind, Registry(entry.kind))
            own.check(entry)
            own.commit(entry)
        for entry in self.staged:
            registries[entry.kind].commit(entry)


def calling_line(depth: int = 2) -> str:
    """`file:line` of the caller `depth` frames up."""
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
