# SPDX-License-Identifier: Apache-2.0
"""Stops a Python function at one of its lines, and lets another thread work meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def lines_of(function: Callable[[], object]) -> int:
    """How many lines a call executes, in functions that it calls, too."""
    counter = _Tracer(lambda: None, -1)
    counter.run(function)
    return counter.lines


def stopped_at(line: int, function: Callable[[], T], meanwhile: Callable[[], object], patience: float) -> T:
    """What a function returns that is stopped before the line of this number until `meanwhile` has returned.

    `meanwhile` runs in another thread. The function goes on after `patience` seconds, as it may hold a lock.
    """
    thread = Thread(target=meanwhile, daemon=True)

    def stop() -> None:
        thread.start()
        thread.join(patience)

    try:
        return _Tracer(stop, line).run(function)
    finally:
        if thread.ident is not None:
            thread.join()


class _Tracer:
    """Counts lines in this thread and calls a function before one of them."""

    def __init__(self, stop: Callable[[], None], line: int) -> None:
        self.lines = 0
        self._stop, self._line = stop, line

    def run(self, function: Callable[[], T]) -> T:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return function()
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line":
            if self.lines == self._line:
                self._stop()
            self.lines += 1
        return self._trace
