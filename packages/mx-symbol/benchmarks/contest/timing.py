# SPDX-License-Identifier: Apache-2.0
"""How a turn is timed, ours and theirs. Runs on Python 3.8 too."""

import time


def turn(step, runs):
    """Seconds of each of so many runs of a function that waits for what it computes; one before them is not counted."""
    step()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times
