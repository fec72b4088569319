# SPDX-License-Identifier: Apache-2.0
"""The exchange of workers of one machine through memory that they share, on processors that they share, too.

As in the store, an array passes in chunks: each worker writes what the others are to add, adds its own part of what
they have written, and takes the sums of the other parts; it does the last of these that is possible. Or, where workers
see each other's arrays, it adds its part where they lie.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

#: bytes of a chunk, and chunks that a worker may be ahead of the others
CHUNK, AHEAD = 256 << 10, 32


@dataclass(frozen=True)
class Memory:
    """Seconds per byte that a processor needs for a copy while all others copy, too; half of it is reading.

    Parameters
    ----------
    far : float
        Between arrays that no cache holds.
    near : float
        Between arrays that stay in its caches.
    """

    far: float
    near: float


def direct(workers: int, size: int, cores: int, memory: Memory, targets: int = 1) -> float:
    """Seconds until all workers have the sums, made where arrays lie; parameters as of `exchange`.

    A copy reads what it is to overwrite. These sums do not: they write past the caches.
    """
    return size * memory.far / 3 * (1 + targets) * max(1.0, workers / cores)


def exchange(workers: int, size: int, cores: int, memory: Memory, targets: int = 1) -> float:
    """Seconds until all workers have the sums.

    Parameters
    ----------
    workers : int
    size : int
        Bytes that each worker gives.
    cores : int
        Processors of the machine.
    memory : Memory
    targets : int
        Arrays of each worker that get the sums: the value of the store, and that of `pushpull`.
    """
    if workers == 1:
        return size * memory.far * (1 + targets) / 2
    far, near = memory.far / 2, memory.near / 2
    others = (workers - 1) / workers
    costs = (  # seconds per byte of a chunk
        others * (far + near),
        (far + (workers - 1) * near + near + targets * far) / workers,
        others * (near + targets * far),
    )
    env = simpy.Environment()
    processors = simpy.Resource(env, cores)
    chunks = -(-size // CHUNK)
    done = [[0, 0, 0] for _ in range(workers)]  # chunks that each has written, added, taken
    changed = [env.event()]

    def next_of(own: list[int]) -> int | None:
        written, added, taken = own
        if taken < added and all(each[1] > taken for each in done):
            return 2
        if added < written and all(each[0] > added for each in done):
            return 1
        if written < chunks and written - min(each[2] for each in done) < AHEAD:
            return 0
        return None

    def work(own: list[int]) -> Generator[Any, Any, None]:
        while own[2] < chunks:
            what = next_of(own)
            if what is None:
                yield changed[0]
                continue
            with processors.request() as turn:
                yield turn
                yield env.timeout(costs[what] * min(CHUNK, size - own[what] * CHUNK))
            own[what] += 1
            before, changed[0] = changed[0], env.event()
            before.succeed()

    for own in done:
        env.process(work(own))
    env.run()
    return float(env.now)
