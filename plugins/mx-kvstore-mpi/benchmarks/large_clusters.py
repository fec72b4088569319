# SPDX-License-Identifier: Apache-2.0
"""Prints what the simulation says of clusters of up to ten thousand workers, as the tables of the documentation.

The costs of a processor are those that were measured on the machine of the project's other figures; those of links are
usual ones of a data centre. `bench_clusters.py` compares the simulation with what is measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from clusters import machine, schedules, staleness, stragglers
from clusters.network import Link, Phase, run

#: bytes of the gradients of ResNet-50
SIZE = 102.2e6
#: workers of a host, which has as many processors
PER_HOST = 8
#: 10 Gbit/s
LINK = Link(rate=1.25e9, latency=30e-6, overhead=5e-6)
#: seconds per byte: a copy in main memory, and in caches; the time of two workers with a processor each
MEMORY = machine.Memory(far=1.5e-10, near=5e-11)
#: seconds per byte: of adding; of making 2-bit codes of gradients; of adding what a byte of codes stands for
ADD, COMPRESS, EXPAND = 1.5e-10, 19.7e-3 / SIZE, 16 * 19e-3 / SIZE
CODES = SIZE / 16
#: seconds that a worker computes; one step of a hundred takes five times as long
COMPUTE = stragglers.Compute(mean=0.25, jitter=0.05, slow=0.01, factor=5.0)
SEED = 1

WORKERS = (2, 8, 64, 512, 4096, 10_000)
BOUNDS = (0, 1, 2, 4, 8)
#: steps that are simulated for a mean
STEPS = 10


def hosts(
    workers: int, among: Callable[..., list[Phase]], size: float = SIZE, work: float = ADD
) -> list[Phase]:
    """Workers of a host sum among themselves first; one worker of each host exchanges with the others."""
    per_host = min(workers, PER_HOST)
    inside = machine.exchange(per_host, int(SIZE), PER_HOST, MEMORY)
    return schedules.hierarchical(per_host, inside, among(np.arange(0, workers, per_host), size, LINK, work))


def served(workers: int, servers: int, size: float = SIZE, work: float = ADD) -> list[Phase]:
    """Pushes of so many bytes, and answers of all values."""
    nodes = np.arange(workers + servers)
    return schedules.servers(nodes[:workers], nodes[workers:], size, LINK, work, SIZE)


def on_all(make: Callable[..., list[Phase]]) -> Callable[[int], list[Phase]]:
    """An exchange of all workers with each other."""
    return lambda workers: make(np.arange(workers), SIZE, LINK, ADD)


EXCHANGES: dict[str, Callable[[int], list[Phase]]] = {
    "16 servers": lambda n: served(n, 16),
    "a server per 8 workers": lambda n: served(n, -(-n // 8)),
    "ring": on_all(schedules.ring),
    "by parts": on_all(schedules.parts),
    "tree": on_all(schedules.tree),
    "in hosts, then ring": lambda n: hosts(n, schedules.ring),
    "in hosts, then by parts": lambda n: hosts(n, schedules.parts),
    "in hosts, then tree": lambda n: hosts(n, schedules.tree),
    "in hosts, then 2-bit codes to all": lambda n: hosts(n, schedules.gathered, CODES, EXPAND),
    "2-bit codes to a server per 8 workers": lambda n: served(n, -(-n // 8), CODES, EXPAND),
}


def nodes_of(name: str, workers: int) -> int:
    """How many nodes an exchange has."""
    if "server" not in name:
        return workers
    return workers + (16 if name.startswith("16") else -(-workers // 8))


def seconds(name: str, workers: int) -> float:
    """Of one exchange of workers that are ready together."""
    ready = np.zeros(nodes_of(name, workers))
    if "codes" in name:
        ready[:workers] += COMPRESS * SIZE
    return float(run(EXCHANGES[name](workers), ready).done[:workers].max())


def drawn(workers: int) -> np.ndarray:
    """How long workers compute."""
    return COMPUTE.draw(np.random.default_rng(SEED), workers, STEPS)


def waited(workers: int) -> float:
    """Seconds of a step that waits for all workers; they sum in hosts, then by parts."""
    return stragglers.train(drawn(workers), hosts(workers, schedules.parts))


def stale(workers: int, bound: int) -> float:
    """Seconds of a step of the last worker, with a server per 8 workers that wait for nobody beyond the bound."""
    return staleness.train(drawn(workers), bound, max(1, workers // 8), SIZE, LINK).end / STEPS


def row(name: str, values: list[float]) -> str:
    """A line of a table, in milliseconds of two digits."""
    return f"| {name} | " + " | ".join(f"{float(f'{1e3 * each:.2g}'):g}" for each in values) + " |"


def exchange_rows() -> list[str]:
    """The table of exchanges."""
    return [row(name, [seconds(name, workers) for workers in WORKERS]) for name in EXCHANGES]


def step_rows() -> list[str]:
    """The table of whole steps."""
    found = [row("in hosts, then by parts", [waited(workers) for workers in WORKERS])]
    for bound in BOUNDS:
        name = f"servers, bound {bound}"
        found.append(row(name, [stale(workers, bound) for workers in WORKERS]))
    return found


if __name__ == "__main__":
    print(f"| | {' | '.join(map(str, WORKERS))} |\n|---|{'---|' * len(WORKERS)}")
    print("\n".join([*exchange_rows(), "", *step_rows()]))
