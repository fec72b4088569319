# SPDX-License-Identifier: Apache-2.0
"""Warns when a rule of a plug-in's operator does not return; names its plug-in and the line that runs.

One thread watches all. The first rule of an operator that is not the project's starts it, and it ends when
none has run for a while. There is no lock, so that a forked child finds none taken: what is shared is two
dictionaries, of which every step is atomic.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mx_core.errors import PluginWarning
from mx_core.forks import at_fork
from mx_core.plugins.registries import Entry

#: after which a rule that still runs is reported, once
SECONDS = 10.0


@dataclass
class _Run:
    """A rule that runs."""

    entry: Entry
    rule: str
    since: float
    reported: bool = False


_running: dict[int, _Run] = {}  # by thread
_watchers: dict[str, threading.Thread] = {}  # the one that watches, if any
_ONLY = "only"


@contextmanager
def watched(entry: Entry, rule: str) -> Iterator[None]:
    """Reports a block that runs for longer than `SECONDS`; of nested blocks, the outermost.

    Watching never makes the block fail: where no thread can be started, nothing is reported.
    """
    thread = threading.get_ident()
    if thread in _running:
        yield
        return
    try:
        _running[thread] = _Run(entry, rule, time.monotonic())
        if _ONLY not in _watchers:
            _start()
        yield
    finally:
        _running.pop(thread, None)


def _start() -> None:
    watcher = threading.Thread(target=_main, name="mx-watch", daemon=True)
    if _watchers.setdefault(_ONLY, watcher) is not watcher:
        return  # another thread was faster
    try:
        watcher.start()
    except (
        RuntimeError,
        MemoryError,
    ):  # too many threads, or the interpreter ends: the next rule tries again
        _watchers.pop(_ONLY, None)
    except BaseException:  # Ctrl-C
        _watchers.pop(_ONLY, None)
        raise


def _main() -> None:
    me = threading.current_thread()
    while _watchers.get(_ONLY) is me:
        time.sleep(SECONDS)
        for thread, run in list(_running.items()):
            if not run.reported and time.monotonic() - run.since >= SECONDS:
                run.reported = True
                _report(thread, run)
        if not _running:
            # A rule that begins is in _running before it looks for a watcher: one of the two sees the other.
            _watchers.pop(_ONLY, None)
            if _running:
                _watchers.setdefault(_ONLY, me)


def _report(thread: int, run: _Run) -> None:
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
    except (
        BaseException
    ) as error:  # of a filter or of the user's showwarning; the rule's thread cannot raise it
        if not isinstance(error, PluginWarning):
            text += f" (the warning failed: {type(error).__name__}: {error})"
        with suppress(OSError, ValueError):  # a closed stderr: nothing can be said
            print(text, file=sys.stderr, flush=True)


def _forget() -> None:
    """A forked child has neither the watching thread nor the others."""
    _watchers.clear()
    here = threading.get_ident()
    for thread in [thread for thread in _running if thread != here]:
        _running.pop(thread, None)


at_fork(after_in_child=_forget)
