# SPDX-License-Identifier: Apache-2.0
"""How close does reading records come to reading the file into memory?

    python benchmarks/bench_recordio.py [--megabytes 512] [--folder /tmp]

The file is in the page cache for both. Prints seconds, GB/s, and the ratio of the file's time to the records'
time: 1.0 means that finding and checking records costs nothing. The goal for records of at least 100 kB is
0.8.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

from mx_core.testing.benchmark import record
from mx_io.recordio import MXRecordIO


def best_time(function: Callable[[], object], rounds: int = 5) -> float:
    """Shortest wall time of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Compare for several sizes of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = os.path.join(folder, "bench.rec")
        for size in (1_000, 10_000, 100_000, 1_000_000):
            compare(path, size, arguments.megabytes * 1_000_000 // size)


def compare(path: str, size: int, count: int) -> None:
    """Print one line for `count` records of `size` bytes."""
    payload = os.urandom(size)
    with MXRecordIO(path, "w") as records:
        for _ in range(count):
            records.write(payload)

    piece = bytearray(1 << 20)

    def whole_file() -> None:
        with open(path, "rb", buffering=0) as file:
            file.read()

    def pieces() -> None:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(piece):
                pass

    def batches(step: int = 64) -> None:
        with MXRecordIO(path, "r") as records:
            for begin in range(0, count, step):
                records.read_batch(offsets[begin : begin + step])

    def one_by_one() -> None:
        with MXRecordIO(path, "r") as records:
            while records.read() is not None:
                pass

    with MXRecordIO(path, "r") as records:
        offsets = records.offsets()
    file, limit, batched, single = (best_time(f) for f in (whole_file, pieces, batches, one_by_one))
    total = os.path.getsize(path) / 1e9
    for way, seconds in (("read_batch", batched), ("read", single)):
        for name, other in (("reading the file", file), ("reading pieces", limit)):
            record(f"{way}, {size:,} B", total / seconds, "GB/s", baseline=name, ratio=other / seconds)


if __name__ == "__main__":
    main()
