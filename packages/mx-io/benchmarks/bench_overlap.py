# SPDX-License-Identifier: Apache-2.0
"""What does a training step cost the pipeline that runs beside it?

    python benchmarks/bench_overlap.py [--images 300] [--rounds 5]

The step is as long as the pipeline needs for a batch, so that neither hides the other. Baseline: the pipeline alone.
The rate should lose less than 5 %. The step is one that waits, as for a GPU, beside as many threads as there are cores;
and one that computes on a core (products of matrices), beside one thread less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the step takes one core

import numpy as np
from bench_image_pipeline import RESIZED, make_jpegs

from mx_core.testing.benchmark import record
from mx_io.io import ImageRecordIter
from mx_io.recordio import IRHeader, MXRecordIO, pack

BATCH = 50
#: Batches of which some are finished before the first step; more than the iterator prepares ahead.
WAITING = 6
#: How often each image comes in the file.
TIMES = 5


def rate(path: str, threads: int, step: Callable[[], object]) -> float:
    """Images a second, with a step after each batch; the batches that were waiting at the beginning do not count."""
    source = ImageRecordIter(
        path_imgrec=path, data_shape=(3, 224, 224), batch_size=BATCH, preprocess_threads=threads, rand_mirror=True,
        shuffle=True, scale=1 / 58, **RESIZED,
    )  # fmt: skip
    arrivals = []
    for _ in source:
        arrivals.append(time.perf_counter())
        step()
    source.close()
    return (len(arrivals) - 1 - WAITING) * BATCH / (arrivals[-1] - arrivals[WAITING])


def products(count: int) -> None:
    """Computes on one core for as long as `count` says."""
    matrix = np.ones((192, 192), np.float32)
    for _ in range(count):
        matrix @ matrix


def nothing() -> None:
    """A step that takes no time."""


def main() -> None:
    """Print the ratio for both kinds of step, alternating and taking the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.rec")
        with MXRecordIO(path, "w") as records:
            for i, data in enumerate(make_jpegs(arguments.images) * TIMES):
                records.write(pack(IRHeader(0, float(i), i, 0), data))
        for name, threads in (("that waits", cores), ("that computes on a core", max(1, cores - 1))):
            pairs = [pair(path, threads, name == "that waits") for _ in range(arguments.rounds)]
            alone, beside = max(a for a, _ in pairs), max(b for _, b in pairs)
            record(f"ImageRecordIter beside a step {name}, {threads} threads", beside, "images/s",
                   baseline="without a step", ratio=beside / alone)  # fmt: skip


def pair(path: str, threads: int, waits: bool) -> tuple[float, float]:
    """The rate alone, and beside a step as long as a batch takes alone."""
    alone = rate(path, threads, nothing)
    seconds = BATCH / alone
    if waits:
        return alone, rate(path, threads, partial(time.sleep, seconds))
    products(50)
    begin = time.perf_counter()
    products(200)
    count = max(1, round(200 * seconds / (time.perf_counter() - begin)))
    return alone, rate(path, threads, partial(products, count))


if __name__ == "__main__":
    main()
