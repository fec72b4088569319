# SPDX-License-Identifier: Apache-2.0
"""Question: what does an empty Python operation cost, beside `concurrent.futures`?

Prints microseconds per operation, push to end of the last one, medians of seven in turns; the ratio
is the baseline's time over ours. The chain's baseline waits for its predecessor's future, which is how an
order is expressed there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import mx_engine
from mx_core.testing.benchmark import record
from mx_engine.measure import chain, independent, nothing, round_trip

OPERATIONS = 10_000
WORKERS = 2


def medians(*runs: Callable[[], None]) -> list[float]:
    """Microseconds per operation of each, measured in turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(7):
        for run, own in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) / OPERATIONS * 1e6 for own in times]


def independent_futures(pool: ThreadPoolExecutor) -> None:
    for future in [pool.submit(nothing) for _ in range(OPERATIONS)]:
        future.result()


def chain_futures(pool: ThreadPoolExecutor) -> None:
    def after(previous: Future[None]) -> None:
        previous.result()

    last: Future[None] = pool.submit(nothing)
    for _ in range(OPERATIONS - 1):
        last = pool.submit(after, last)
    last.result()


def round_trip_futures(pool: ThreadPoolExecutor) -> None:
    for _ in range(OPERATIONS):
        pool.submit(nothing).result()


def main() -> None:
    engine = mx_engine.create(workers=WORKERS)
    print(f"{OPERATIONS} empty Python operations, {WORKERS} workers")
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, ours, theirs in (
            ("independent", independent, independent_futures),
            ("one variable", chain, chain_futures),
            ("push and wait", round_trip, round_trip_futures),
        ):
            us, baseline = medians(partial(ours, engine, OPERATIONS), partial(theirs, pool))
            record(name, us, "us", baseline="concurrent.futures", ratio=baseline / us)
    naive = mx_engine.create("NaiveEngine")
    record("naive", medians(partial(chain, naive, OPERATIONS))[0], "us")


if __name__ == "__main__":
    main()
