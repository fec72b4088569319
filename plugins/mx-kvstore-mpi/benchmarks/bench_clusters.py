# SPDX-License-Identifier: Apache-2.0
"""What the simulation of clusters says of two and of four workers, beside what they take.

The simulation knows costs of single things, which are measured in a job of two workers: a copy, a small exchange, a
message. From these it predicts how long gradients take. On one machine four workers share its processors. As hosts
serve namespaces of this machine, whose links are limited, so that they, and not the processors, are what counts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS, WARM = 9, 3
#: elements of the gradients that are exchanged on one machine, and between hosts
INSIDE, AMONG = (2_000_000,) * 12, (500_000,) * 8
#: bytes per second of a link between hosts
RATE = 50e6
SMALL, KEYS = 1, 100


def timed(store: Any, run: Callable[[], object], count: int = 1) -> float:
    """Seconds of one run, the median, while all workers do it."""
    taken = []
    for _ in range(WARM + ROUNDS):
        store.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        taken.append((time.perf_counter() - begin) / count)
    return statistics.median(taken[WARM:])


def messages(store: Any) -> dict[str, float]:
    """Costs of a link: seconds of a short message, and bytes per second of a long one."""
    short, long = np.zeros(1, np.uint8), np.zeros(8 << 20, np.uint8)

    def there_and_back(comm: Any, values: Any) -> float:
        begin = time.perf_counter()
        for turn in range(2):
            if comm.Get_rank() == turn:
                comm.Send(values, 1 - turn)
            elif comm.Get_rank() == 1 - turn:
                comm.Recv(values, turn)
        return (time.perf_counter() - begin) / 2

    def times(values: Any) -> float:
        found: list[float] = [
            store._rounds.do("message", lambda comm: there_and_back(comm, values))
            for _ in range(WARM + ROUNDS)
        ]
        return statistics.median(found[WARM:])

    latency = times(short)
    return {"latency": latency, "rate": long.nbytes / (times(long) - latency)}


def worker(among: bool) -> None:
    """Each worker prints what it has measured."""
    import mx

    store: Any = mx.kv.create("dist_sync")
    shapes = AMONG if among else INSIDE
    keys = {
        name: [(f"{name}{key}", mx.nd.ones((n,)), mx.nd.zeros((n,))) for key, n in enumerate(sizes)]
        for name, sizes in (("large", shapes), ("small", (SMALL,) * KEYS))
    }
    for each in keys.values():
        for key, _, out in each:
            store.init(key, out)

    def exchange(name: str) -> None:
        for key, gradient, out in keys[name]:
            store.pushpull(key, gradient, out=out)
        mx.nd.waitall()

    far, near = np.ones(25_000_000, np.float32), np.ones(16_000, np.float32)
    others = np.zeros_like(far), np.zeros_like(near)
    found = {
        "exchange": timed(store, lambda: exchange("large")),
        "keys": timed(store, lambda: exchange("small")) * len(shapes) / KEYS,
        "far": timed(store, lambda: np.copyto(others[0], far)) / far.nbytes,
        "near": timed(store, lambda: np.copyto(others[1], near), 1000) / near.nbytes,
    }
    if among:
        found |= messages(store)
    print(json.dumps(found), flush=True)
    store.barrier()


def costs(workers: int, options: list[str], **told: str) -> dict[str, float]:
    """What the workers of a job have measured: of the slowest one."""
    from mx_core.testing.exchange import launched

    kind = "--among" if options else "--inside"
    found = launched(
        workers, options, [os.path.abspath(__file__), kind], **{"MXNET_CPU_WORKER_NTHREADS": "1", **told}
    )
    return {name: max(each[name] for each in found) for name in found[0]}


def show(name: str, predicted: float, measured: float) -> None:
    """Prints what was predicted, and its part of what was measured."""
    from mx_core.testing.benchmark import record

    record(f"{name}, predicted", 1e3 * predicted, "ms", baseline="measured", ratio=measured / predicted)
    record(f"{name}, measured", 1e3 * measured, "ms")


def inside() -> Iterator[tuple[str, float, float]]:
    """Of two and of four workers of one machine: what it is, and the predicted and the measured seconds."""
    from clusters.machine import Memory, direct

    cores = len(os.sched_getaffinity(0))
    two = costs(2, [])
    memory = Memory(two["far"], two["near"])
    for workers, measured in ((2, two), (4, costs(4, []))):
        # A program pushes its keys while processors are left for it.
        keys = two["keys"] * max(1.0, workers / cores)
        predicted = keys + direct(workers, 4 * sum(INSIDE), cores, memory, targets=2)
        yield f"{workers} workers, one machine", predicted, measured["exchange"]


def among() -> Iterator[tuple[str, float, float]]:
    """The same of two and of four hosts.

    Raises
    ------
    HostsError  they cannot be made here
    """
    from clusters.hosts import Hosts
    from clusters.network import Link, run
    from clusters.schedules import parts

    link: Link | None = None
    for workers in (2, 4):
        with tempfile.TemporaryDirectory() as folder, Hosts(workers, Path(folder)) as hosts:
            hosts.limit(RATE)
            measured = costs(workers, hosts.options, PATH=hosts.path)
        link = link or Link(measured["rate"], latency=measured["latency"])
        nodes, ready = np.arange(workers), np.zeros(workers)
        predicted = sum(run(parts(nodes, 4 * each, link, measured["far"]), ready).end for each in AMONG)
        yield f"{workers} hosts, {RATE / 1e6:g} MB/s", predicted, measured["exchange"]


def in_hosts_first() -> Iterator[tuple[str, float, float]]:
    """The same of four workers on two hosts, which sum in each of them first.

    Raises
    ------
    HostsError  they cannot be made here
    """
    from clusters.hosts import Hosts
    from clusters.machine import Memory, exchange
    from clusters.network import Link, run
    from clusters.schedules import parts

    with tempfile.TemporaryDirectory() as folder, Hosts(2, Path(folder)) as hosts:
        hosts.limit(RATE)
        one_each = costs(2, hosts.options, PATH=hosts.path)  # the two whose messages are measured
        measured = costs(4, hosts.options, PATH=hosts.path)
    link, far = Link(one_each["rate"], latency=one_each["latency"]), measured["far"]
    memory, cores = Memory(far, measured["near"]), max(1, len(os.sched_getaffinity(0)) // 2)
    leaders, ready = np.arange(2), np.zeros(2)
    # While leaders exchange an array, their hosts add the next one, and give the one before.
    in_host = [exchange(2, 4 * size, cores, memory) for size in AMONG]
    between = [run(parts(leaders, 4 * size, link, far), ready).end for size in AMONG]
    predicted = in_host[0] + sum(map(max, in_host, between))
    yield f"4 workers on 2 hosts, {RATE / 1e6:g} MB/s", predicted, measured["exchange"]


def main() -> None:
    """Prints the records."""
    from clusters.hosts import HostsError

    for each in inside():
        show(*each)
    try:
        for each in (*among(), *in_hosts_first()):
            show(*each)
    except HostsError as error:
        print(f"hosts are left out: {error}")


if __name__ == "__main__":
    if sys.argv[1:] in (["--inside"], ["--among"]):
        worker(sys.argv[1] == "--among")
    else:
        main()
