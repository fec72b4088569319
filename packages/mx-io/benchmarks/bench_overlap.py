# SPDX-License-Identifier: Apache-2.0
"""What does a training step cost the pipeline that runs beside it?

    python benchmarks/bench_overlap.py [--images 300] [--rounds 5]

The step is as long as the pipeline needs for a batch, so that neither hides the other. The rate should lose less than
5 % of what the cores can give:

- A step that waits, as for a GPU, leaves all cores to the pipeline, which has as many threads. The baseline is the
  slower of the two: the pipeline alone, measured before and after, and the waits as long as they really were.
- A step that computes (products of matrices) has one core; the pipeline has a thread less than there are cores. The
  baseline is what both can do beside each other if neither ever waits for the other: the same products run without end
  in a process of their own, and the slower of the two, pipeline or products, gives the rate. Two cores that share
  memory and power give each less than one alone: that is no loss of the pipeline.

The batches that were ready when the first step began do not count. The ratio is the median of the rounds' ratios, each
of measurements one after the other.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: the step takes one core

import numpy as np
from bench_image_pipeline import RESIZED, make_jpegs

from mx_core.testing.benchmark import record, spread
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


def compute_until_told(count: int) -> None:
    """Products without end, until a line comes on standard input; prints the seconds of a step then."""
    products(count)
    print("begun", flush=True)
    begin, steps = time.perf_counter(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        products(count)
        steps += 1
    print((time.perf_counter() - begin) / max(1, steps))


def beside_products(path: str, threads: int, count: int) -> float:
    """Images a second that pipeline and products give beside each other when neither waits for the other."""
    command = [sys.executable, __file__, "--products", str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as computing:
        assert computing.stdout is not None
        computing.stdout.readline()
        pipeline = rate(path, threads, nothing)
        seconds = float(computing.communicate("\n")[0])
    return min(pipeline, BATCH / seconds)


def main() -> None:
    """Print the median ratio for both kinds of step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--products", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.products:
        compute_until_told(arguments.products)
        return
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.rec")
        with MXRecordIO(path, "w") as records:
            for i, data in enumerate(make_jpegs(arguments.images) * TIMES):
                records.write(pack(IRHeader(0, float(i), i, 0), data))
        for name, threads, measure, baseline in (
            ("that waits", cores, waiting, "the slower of both"),
            ("that computes on a core", max(1, cores - 1), computing, "both without waiting for each other"),
        ):
            rounds = [measure(path, threads) for _ in range(arguments.rounds)]
            ratios = [beside / limit for limit, beside in rounds]
            record(f"ImageRecordIter beside a step {name}, {threads} threads",
                   statistics.median(beside for _, beside in rounds), "images/s", baseline=baseline,
                   ratio=statistics.median(ratios), spread=spread(ratios))  # fmt: skip


def waiting(path: str, threads: int) -> tuple[float, float]:
    """The slower of the pipeline alone and a step that sleeps as long as a batch takes alone, and both together."""
    before = rate(path, threads, nothing)
    slept = []

    def sleep() -> None:
        begin = time.perf_counter()
        time.sleep(BATCH / before)
        slept.append(time.perf_counter() - begin)

    beside = rate(path, threads, sleep)
    alone = (before + rate(path, threads, nothing)) / 2
    return min(alone, BATCH / statistics.mean(slept)), beside


def computing(path: str, threads: int) -> tuple[float, float]:
    """The rate of pipeline and products that do not wait for each other, and the rate beside a step of products."""
    seconds = BATCH / rate(path, threads, nothing)
    products(50)
    begin = time.perf_counter()
    products(200)
    count = max(1, round(200 * seconds / (time.perf_counter() - begin)))
    return beside_products(path, threads, count), rate(path, threads, partial(products, count))


if __name__ == "__main__":
    main()
