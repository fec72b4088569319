# SPDX-License-Identifier: Apache-2.0
"""Bytes in use and pooled, as counters: one sample whenever they changed since the last look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from mx_core import services
from mx_core.context import Context
from mx_engine.profiler.recording import Value

DOMAIN = "memory"
#: seconds between two looks
PERIOD = 0.001


class MemorySampler:
    """Looks at the statistics of storage managers from a thread of its own, and keeps what changed.

    It asks the managers whose memory the program has used; a manager's `stats` costs microseconds, on
    this thread alone.
    """

    def __init__(self, keep: Callable[[Value], None]) -> None:
        self._keep = keep
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: dict[str, tuple[int, int]] = {}

    def start(self) -> None:
        """Begins with a sample of everything."""
        if self._thread is not None:
            return
        self._ended.clear()
        self._seen.clear()
        self.look()
        self._thread = threading.Thread(target=self._watch, name="mx profiler memory", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends with a last look."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._thread = None
        self.look()

    def look(self) -> None:
        """Keeps a sample of each memory that changed."""
        for context, manager in _used():
            stats = manager.stats(context)
            figures = (int(stats.bytes_in_use), int(stats.bytes_pooled))
            name = f"{context.device_type}/{context.device_id}"
            if self._seen.get(name) == figures:
                continue
            self._seen[name] = figures
            moment = time.monotonic_ns()
            for what, value in zip(("in use", "pooled"), figures, strict=True):
                self._keep(Value(DOMAIN, f"Memory: {name} {what}", moment, value))

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD):
            self.look()


def _used() -> list[tuple[Context, Any]]:
    """Contexts and the managers of their memory; main memory always."""
    managers = {"cpu": services.storage("cpu")}
    return [(Context(kind, 0), manager) for kind, manager in managers.items()]
