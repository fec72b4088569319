# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers and two servers on one machine.

Each key is pushed and pulled by itself. The limit runs in the same rounds: what parameter servers cannot do without,
four copies of as many bytes and two sums, of which each worker does half while the other one does its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

WORKERS = SERVERS = 2
ROUNDS, WARM = 9, 3
#: of a stage: how many blocks, and the width inside of them
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


def convolution(out: int, source: int, kernel: int) -> Iterator[tuple[int, ...]]:
    """Shapes of its weight, and of the two parameters of the normalisation behind it."""
    yield from ((out, source, kernel, kernel), (out,), (out,))


def shapes() -> Iterator[tuple[int, ...]]:
    """Of the parameters of ResNet-50, from the first layer to the last."""
    yield from convolution(64, 3, 7)
    width = 64
    for blocks, inner in STAGES:
        for block in range(blocks):
            yield from convolution(inner, width, 1)
            yield from convolution(inner, inner, 3)
            yield from convolution(4 * inner, inner, 1)
            if block == 0:
                yield from convolution(4 * inner, width, 1)
            width = 4 * inner
    yield from ((1000, width), (1000,))


def worker() -> None:
    """Each worker prints the milliseconds of each round."""
    import mx

    store: Any = mx.kv.create("dist_sync")
    outs = [mx.nd.zeros(shape) for shape in shapes()]
    gradients = [mx.nd.ones(shape) * (store.rank + 1) for shape in shapes()]
    for key, out in enumerate(outs):
        store.init(key, out)
    size = sum(out.size for out in outs)
    flat, other = np.ones(size, np.float32), np.zeros(size, np.float32)

    def limit() -> None:
        for _ in range(2):
            np.copyto(other, flat)
        np.add(other, flat, out=other)

    def exchange() -> None:
        for key, (gradient, out) in enumerate(zip(gradients, outs, strict=True)):
            store.pushpull(key, gradient, out=out, priority=-key)
        mx.nd.waitall()

    steps: dict[str, Callable[[], None]] = {"limit": limit, "store": exchange}
    taken: dict[str, list[float]] = {part: [] for part in steps}
    for _ in range(WARM + ROUNDS):
        for part, step in steps.items():
            store.barrier()
            begin = time.perf_counter()
            step()
            taken[part].append(1e3 * (time.perf_counter() - begin))
    assert (outs[0].asnumpy() == 3).all()
    print(json.dumps({part: times[WARM:] for part, times in taken.items()}), flush=True)
    store.barrier()


def launched() -> dict[str, list[float]]:
    """Milliseconds of the rounds: of the slower worker."""
    words = [sys.executable, "-m", "mx_core.cli", "launch", "-n", str(WORKERS), "-s", str(SERVERS)]
    done = subprocess.run(
        [*words, "--engine", "ray", sys.executable, os.path.abspath(__file__), "--worker"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if len(found) != WORKERS:
        raise SystemExit(f"the job failed:\n{done.stdout}{done.stderr}")
    return {
        part: [max(pair) for pair in zip(*(each[part] for each in found), strict=True)] for part in found[0]
    }


def main() -> None:
    """Prints the record."""
    from mx_core.testing.benchmark import record, spread

    if find_spec("ray") is None:
        print("Ray is not installed")
        return
    taken = launched()
    value = statistics.median(taken["store"])
    ratio = statistics.median(taken["limit"]) / value
    noise = (spread(taken["limit"]) + spread(taken["store"])) * ratio
    record(
        f"dist_sync, {SERVERS} servers on Ray",
        value,
        "ms",
        baseline="copies and sums",
        ratio=ratio,
        spread=noise,
    )


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    else:
        main()
