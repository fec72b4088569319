# SPDX-License-Identifier: Apache-2.0
"""What the error of a missing name says about plug-ins that did not load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from itertools import islice
from pathlib import Path

from mx_core.plugins import aside
from mx_core.plugins.discovery import PluginRecord
from mx_core.signals import let_pass

#: the most plug-ins that are described
_TOLD = 3
#: the most files of a plug-in that are searched for a name
_FILES = 300
#: words in the names of plug-ins that say nothing of what they bring
_COMMON = frozenset(
    ("operators", "operator", "ops", "plugin", "plugins", "mxnet", "kernels", "contrib", "python")
)


def hint(kind: str, name: str, records: Sequence[PluginRecord]) -> str:
    """Sentences about those of `records` that would, or may, have brought `name`; empty when none."""
    absent = [record for record in records if record.state != "loaded"]
    broken = [f for f in aside.faults() if f.entry.kind == kind and name in (f.entry.name, *f.entry.aliases)]
    if broken:
        return " ".join(f"{fault}. See: mx plugins show {fault.entry.plugin}." for fault in broken)
    certain = [record for record in absent if _brings(record, kind, name)]
    meant = certain or [record for record in absent if _may_bring(record, kind, name)]
    told = [
        f"Plug-in {record.name!r} ({record.distribution} {record.version}) was not loaded: "
        f"{record.error}. See: mx plugins show {record.name}."
        for record in meant[:_TOLD]
    ]
    others = [] if certain else [r for r in absent if r not in meant and _has_hook(r, kind)]
    if others := others + meant[_TOLD:]:
        told.append(_counted(others, "more " if told else ""))
    return " ".join(told)


def _counted(records: Sequence[PluginRecord], more: str) -> str:
    blocked = sum(record.state == "blocked" for record in records)
    why = f" ({blocked} disabled by MX_DISABLE_PLUGINS)" if blocked else ""
    return f"{len(records)} {more}plug-in{'s' * (len(records) > 1)} did not load{why}; see: mx plugins."


def _brings(record: PluginRecord, kind: str, name: str) -> bool:
    return any(
        has == kind and (what == name or what.split("/")[0] == name) for has, what in record.contributions
    )


def _has_hook(record: PluginRecord, kind: str) -> bool:
    """Whether it registers anything of the kind, or its module could not be imported."""
    return not record.hooks or f"mx_register_{kind}" in record.hooks


def _may_bring(record: PluginRecord, kind: str, name: str) -> bool:
    """Whether a plug-in has something in common with a name: a word of its own names, as acme-ops and acme_mish, or
    a text in its modules. Those of the project have names of any kind.
    """
    if not _has_hook(record, kind):
        return False
    if record.is_first_party and record.state != "blocked":
        return True
    own = " ".join((record.name, record.distribution, record.module)).lower()
    words = set(re.findall(r"[a-z0-9]{3,}", own)) - _COMMON
    return any(word in name.lower() for word in words) or name in _texts(record.module.partition(":")[0])


@lru_cache(maxsize=64)
def _texts(module: str) -> frozenset[str]:
    """Identifiers that are texts in the modules of a plug-in, its operators among them; none is imported."""
    found: set[str] = set()
    for path in islice(_files(module.partition(".")[0]), _FILES):
        try:
            source = path.read_text(encoding="utf-8", errors="ignore")
        except OSError:
            continue
        found.update(re.findall(r"""["'](\w+)["']""", source))
    return frozenset(found)


def _files(package: str) -> Iterator[Path]:
    try:
        spec = PathFinder.find_spec(package) if package else None
    except Exception as error:  # such as that of a damaged archive
        let_pass(error)
        return
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*.py")
    if spec.origin and not spec.submodule_search_locations:
        yield Path(spec.origin)


def reset() -> None:
    """Forgets what the modules have; for tests."""
    _texts.cache_clear()
