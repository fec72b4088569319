# SPDX-License-Identifier: Apache-2.0
"""Where the time of whole steps goes, as the engine's profiler saw every node of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from mx_engine import profiler
from mx_engine.profiler.recording import Operation
from mx_engine.profiler.session import current

#: operators named; the others take little
SHOWN = 8


class Inside:
    """Profiled steps: what each operator's nodes take, and how long no node runs.

    Parameters
    ----------
    step : callable
        One step, which waits for what it computes.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._total = 0
        self._busy = 0
        self._taken: Counter[str] = Counter()

    def measure(self, steps: int) -> None:
        """Profiles so many steps."""
        self._step()
        current().clear()
        profiler.set_state("run")
        began = time.monotonic_ns()
        for _ in range(steps):
            self._step()
        self._total += time.monotonic_ns() - began
        profiler.set_state("stop")
        nodes = [operation for operation in current().recording().operations if operation.label is not None]
        for node in nodes:
            self._taken[node.name] += node.finished - node.started
        self._busy += covered(nodes)

    def between(self) -> float:
        """The part of the steps' time in which no node runs."""
        return 1 - self._busy / self._total

    def shares(self) -> str:
        """The operators that take the most of the time, and how much of it."""
        shares = ((name, taken / self._total) for name, taken in self._taken.most_common(SHOWN))
        return ", ".join(f"{name} {share:.0%}" for name, share in shares if share > 0.005)


def covered(nodes: list[Operation]) -> int:
    """Nanoseconds in which at least one of them ran."""
    total = end = 0
    for node in sorted(nodes, key=lambda node: node.started):
        if node.finished > end:
            total += node.finished - max(node.started, end)
            end = node.finished
    return total
