# SPDX-License-Identifier: Apache-2.0
"""Says when a rule of a plug-in's operator does not return: who brought it, and the line at which it is.

One thread watches all; it is started by the first rule of an operator that is not the project's, and sleeps
while none runs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mx_core.errors import PluginWarning
from mx_core.plugins.registries import Entry

#: after which a rule that still runs is told of, once
SECONDS = 10.0


@dataclass
class _Run:
    """A rule that runs."""

    entry: Entry
    rule: str
    since: float
    told: bool = False


_running: dict[int, _Run] = {}  # by thread
_begun = threading.Event()
_watcher: threading.Thread | None = None


@contextmanager
def watched(entry: Entry, rule: str) -> Iterator[None]:
    """Tells of what runs inside for longer than `SECONDS`; of rules within rules the outermost counts."""
    thread = threading.get_ident()
    if thread in _running:
        yield
        return
    _running[thread] = _Run(entry, rule, time.monotonic())
    _begun.set()
    if _watcher is None:
        _start()
    try:
        yield
    finally:
        del _running[thread]


def _start() -> None:
    global _watcher
    _watcher = threading.Thread(target=_main, name="mx-watch", daemon=True)
    _watcher.start()


def _main() -> None:
    while True:
        _begun.wait()
        _begun.clear()
        time.sleep(SECONDS)
        for thread, run in list(_running.items()):
            if not run.told and time.monotonic() - run.since >= SECONDS:
                run.told = True
                _tell(thread, run)
        if _running:
            _begun.set()


def _tell(thread: int, run: _Run) -> None:
    entry = run.entry
    frame = sys._current_frames().get(thread)
    place = "" if frame is None else f", now at {frame.f_code.co_filename}:{frame.f_lineno}"
    text = (
        f"operator {entry.name!r} of {entry.source}: {run.rule} has not "
        f"returned for {time.monotonic() - run.since:.0f} s{place}; Ctrl-C ends it"
    )
    file, _, line = entry.origin.rpartition(":")
    try:
        warnings.warn_explicit(text, PluginWarning, file or entry.origin, int(line) if line.isdigit() else 1)
    except PluginWarning:  # warnings are errors, but the thread that could raise this one does not come back
        print(text, file=sys.stderr, flush=True)


def _forget() -> None:
    """A forked child has neither the watching thread nor the others."""
    global _watcher
    _watcher = None
    here = threading.get_ident()
    for thread in [thread for thread in _running if thread != here]:
        del _running[thread]


os.register_at_fork(after_in_child=_forget)
