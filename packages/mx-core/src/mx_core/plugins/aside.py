# SPDX-License-Identifier: Apache-2.0
"""Contributions of loaded plug-ins that turned out not to work, and were set aside.

Code that uses a contribution and finds a constructor, `make`, `sniff` or pass that is missing, raises or is
malformed calls `set_aside` and goes on with the next candidate. The user is warned once for each.
"""

from __future__ import annotations

import warnings

from mx_core import environment
from mx_core.errors import PluginError, PluginWarning
from mx_core.forks import ForkSafeLock
from mx_core.plugins.registries import Entry
from mx_core.raised import own_traceback
from mx_core.record import Record
from mx_core.signals import let_pass


class Fault(Record):
    """What is wrong with one contribution."""

    entry: Entry
    error: str
    traceback: str = ""

    def __str__(self) -> str:
        kind = self.entry.kind.replace("_", " ")
        return f"{kind}: {self.entry.name!r} of {self.entry} is set aside: {self.error}"


_lock = ForkSafeLock()
_faults: dict[tuple[str, str, str], Fault] = {}


def set_aside(entry: Entry, error: Exception | str) -> None:
    """Notes that a contribution does not work; warns when that is new.

    The warning is attributed to the line that registered it.

    Raises
    ------
    PluginError  with MX_STRICT_PLUGINS=1, instead of the warning
    Exception  the error itself, if a handler of a signal has raised it
    """
    if isinstance(error, Exception):
        let_pass(error)
        text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        fault = Fault(entry, text, own_traceback(error))
    else:
        fault = Fault(entry, error)
    if environment.strict_plugins():
        raise PluginError(str(fault)) from (error if isinstance(error, Exception) else None)
    key = (entry.kind, entry.name, entry.plugin)
    with _lock:
        new = _faults.setdefault(key, fault) is fault
    if new:
        file, _, line = entry.origin.rpartition(":")
        message = f"{fault}; see: mx plugins check {entry.plugin}"
        warnings.warn_explicit(
            message, PluginWarning, file or entry.origin, int(line) if line.isdigit() else 1
        )


def is_aside(entry: Entry) -> bool:
    """True for a contribution that was set aside."""
    return len(_faults) > 0 and (entry.kind, entry.name, entry.plugin) in _faults


def faults(plugin: str | None = None) -> tuple[Fault, ...]:
    """What was set aside so far, of one plug-in or of all, in the order in which it was met."""
    with _lock:
        found = tuple(_faults.values())
    return tuple(fault for fault in found if plugin is None or fault.entry.plugin == plugin)


def reset() -> None:
    """Forgets all of it; for tests."""
    with _lock:
        _faults.clear()
