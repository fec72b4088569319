# SPDX-License-Identifier: Apache-2.0
"""How a turn is timed, ours and theirs. Runs on Python 3.8 too."""

from __future__ import annotations

import time
from collections.abc import Callable


def turn(step: Callable[[], object], runs: int) -> list[float]:
    """Seconds of each of so many runs of a function that waits for what it computes; one before them is not counted."""
    step()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times
