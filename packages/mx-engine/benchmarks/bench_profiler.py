# SPDX-License-Identifier: Apache-2.0
"""Question: what does the profiler cost, off and on?

Microseconds per empty Python operation, per pair of allocation and release, and per call, best of several in
turns; the ratio is of speeds, to the same with no profiler in the process, which is 1 by definition.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mx_core import services
from mx_core.testing.benchmark import record
from mx_engine import profiler

OPERATIONS = 5_000


def push() -> None:
    engine = services.engine()
    for _ in range(OPERATIONS):
        engine.push(_nothing)
    engine.wait_for_all()


def allocate() -> None:
    manager = services.storage("cpu")
    for _ in range(OPERATIONS):
        manager.alloc(1000)


def call() -> None:
    for _ in range(OPERATIONS):
        services.engine()


def _nothing() -> None:
    pass


def measured(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / OPERATIONS * 1e6


def main() -> None:
    works = {"push": push, "alloc": allocate, "call": call}
    #: whether memory and calls are recorded
    configurations: dict[str, tuple[bool, bool] | None] = {
        "never started": None,
        "stopped": None,
        "operations": (False, False),
        "and memory": (True, False),
        "and calls": (True, True),
    }
    for work in works.values():
        work()
    best = {(c, w): float("inf") for c in configurations for w in works}
    for configuration, settings in configurations.items():
        for _ in range(7):
            if configuration != "never started":
                memory, calls = settings or (False, False)
                profiler.set_config(filename="/dev/null", profile_memory=memory, profile_api=calls)
                profiler.set_state("run")
                if settings is None:
                    profiler.set_state("stop")
            for name, work in works.items():
                best[configuration, name] = min(best[configuration, name], measured(work))
            profiler.set_state("stop")
            profiler.dumps(reset=True)
    for configuration in configurations:
        for name in works:
            ours = best[configuration, name]
            ratio = best["never started", name] / ours
            record(f"{name}, profiler {configuration}", ours, "us", baseline="no profiler", ratio=ratio)


if __name__ == "__main__":
    main()
