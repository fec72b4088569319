# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of distributed stores: the gradients of ResNet-50, jobs that tell what they measured, and its record."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.testing.benchmark import record, spread

#: rounds that count, and those before
ROUNDS, WARM = 9, 3


def resnet50_shapes() -> list[tuple[int, ...]]:
    """Of its 161 parameters, from the first layer to the last; 102 MB in float32."""
    found: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    width = 64
    for blocks, inner in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            outer = 4 * inner
            for out, kernel, source in ((inner, 1, width), (inner, 3, inner), (outer, 1, inner)):
                found += [(out, source, kernel, kernel), (out,), (out,)]
            if block == 0:
                found += [(outer, width, 1, 1), (outer,), (outer,)]
            width = outer
    return [*found, (1000, width), (1000,)]


class Step:
    """What a step of ResNet-50 exchanges between the two workers of a store.

    Parameters
    ----------
    mx : module
        `mx`, which has the arrays.
    store : KVStore
        Of this worker; it gets the keys.

    Threads: one.
    """

    def __init__(self, mx: Any, store: Any) -> None:
        self._mx, self._store = mx, store
        self.outs = [mx.nd.zeros(shape) for shape in resnet50_shapes()]
        self.gradients = [mx.nd.ones(shape) * (store.rank + 1) for shape in resnet50_shapes()]
        #: elements of all gradients
        self.size = sum(out.size for out in self.outs)
        for key, out in enumerate(self.outs):
            store.init(key, out)

    def pushpull(self) -> None:
        """One call for each key, the last layer's first in priority. Blocks."""
        self._each(self._store.pushpull)

    def sum(self) -> None:
        """The same with sums that the store does not keep. Blocks."""
        self._each(self._store.sum)

    def _each(self, call: Callable[..., object]) -> None:
        for key, (gradient, out) in enumerate(zip(self.gradients, self.outs, strict=True)):
            call(key, gradient, out=out, priority=-key)
        self._mx.nd.waitall()

    def tell(self, taken: Mapping[str, Sequence[float]]) -> None:
        """Checks what has come, and prints what was measured, for `launched`. Blocks until all workers have.

        Raises
        ------
        AssertionError  a sum is wrong
        """
        for key, out in enumerate(self.outs):
            found = out.asnumpy()
            assert (found == 3).all(), f"key {key}: expected 3 everywhere, got {found.min()} to {found.max()}"
        print(json.dumps(taken), flush=True)
        self._store.barrier()


def server_limit(size: int) -> Callable[[], None]:
    """What two workers and two servers cannot do without: of four copies and two sums, a worker's half.

    Parameters
    ----------
    size : int
        Elements of all values, of float32.
    """
    flat, other = np.ones(size, np.float32), np.zeros(size, np.float32)

    def run() -> None:
        for _ in range(2):
            np.copyto(other, flat)
        np.add(other, flat, out=other)

    return run


def timed(
    store: Any, steps: Mapping[str, Callable[[], object]], taken: dict[str, list[float]] | None = None
) -> dict[str, list[float]]:
    """Milliseconds of steps that all workers of a job do at once, in turns. Blocks.

    Parameters
    ----------
    store : KVStore
        Whose barrier is before each step.
    steps : mapping
        Of names to functions.
    taken : dict, optional
        What becomes the result, for steps that depend on others.
    """
    taken = {} if taken is None else taken
    for _ in range(WARM + ROUNDS):
        for name, step in steps.items():
            store.barrier()
            begin = time.perf_counter()
            step()
            taken.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))
    return {name: times[WARM:] for name, times in taken.items()}


def launched(workers: int, options: Sequence[str], command: Sequence[str], **variables: str) -> list[Any]:
    """What each worker of a job printed as a line of JSON. Blocks.

    Parameters
    ----------
    workers : int
    options : sequence of str
        Of `mx launch`.
    command : sequence of str
        A Python program and its arguments.
    variables
        Of the environment, besides this process's.

    Raises
    ------
    SystemExit  not all of them did; it has what they printed
    """
    words = [sys.executable, "-m", "mx_core.cli", "launch", "-n", str(workers), *options]
    done = subprocess.run(
        [*words, sys.executable, *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if len(found) != workers:
        raise SystemExit(f"the job failed:\n{done.stdout}{done.stderr}")
    return found


def slowest(found: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Of what `timed` gave to several workers, the longest times of each round."""
    return {
        name: [max(each) for each in zip(*(times[name] for times in found), strict=True)] for name in found[0]
    }


def compare(name: str, times: Sequence[float], baseline: str, others: Sequence[float]) -> None:
    """Prints the record of milliseconds beside those of a baseline in the same rounds."""
    value = statistics.median(times)
    ratio = statistics.median(others) / value
    noise = (spread(others) + spread(times)) * ratio
    record(name, value, "ms", baseline=baseline, ratio=ratio, spread=noise)
