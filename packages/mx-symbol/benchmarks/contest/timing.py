# SPDX-License-Identifier: Apache-2.0
"""How a turn is timed, ours and theirs. Runs on Python 3.8 too."""

import time

#: a turn lasts at least this long, seconds
TURN = 0.4


def turn(step):
    """Seconds of the best run of a function that waits for what it computes."""
    best, end = float("inf"), time.perf_counter() + TURN
    while True:
        began = time.perf_counter()
        step()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > end:
            return best
