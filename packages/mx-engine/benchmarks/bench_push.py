# SPDX-License-Identifier: Apache-2.0
"""Question: what does an empty Python operation cost, beside `concurrent.futures`?

Prints microseconds per operation, push to end of the last one, best of five; the ratio is the
baseline's time over ours. The chain's baseline waits for its predecessor's future, which is how an
order is expressed there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import mx_engine

OPERATIONS = 10_000
WORKERS = 2


def nothing() -> None:
    pass


def best(run: Callable[[], None]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) / OPERATIONS * 1e6


def independent(engine: mx_engine.Engine) -> None:
    for _ in range(OPERATIONS):
        engine.push(nothing)
    engine.wait_for_all()


def chain(engine: mx_engine.Engine) -> None:
    variable = engine.new_variable()
    for _ in range(OPERATIONS):
        engine.push(nothing, writes=(variable,))
    engine.wait_for_variable(variable)


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


def round_trip(engine: mx_engine.Engine) -> None:
    variable = engine.new_variable()
    for _ in range(OPERATIONS):
        engine.push(nothing, writes=(variable,))
        engine.wait_for_variable(variable)


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
            us, baseline = best(partial(ours, engine)), best(partial(theirs, pool))
            print(f"{name:14} {us:6.2f} us   futures {baseline:6.2f} us   ratio {baseline / us:.2f}")
    naive = mx_engine.create("NaiveEngine")
    print(f"naive          {best(partial(chain, naive)):6.2f} us")


if __name__ == "__main__":
    main()
