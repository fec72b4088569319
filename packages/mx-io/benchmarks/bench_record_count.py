# SPDX-License-Identifier: Apache-2.0
"""Does a record cost the same whether a file has a thousand of them or ten million?

    python benchmarks/bench_record_count.py [--largest 7] [--folder /tmp]

For files of 10^3, 10^4, ... records of 20 bytes and their labels: time of opening with and without an index, of
beginning a shuffled epoch, of reading at random and in order, and memory of the offsets and of a permutation, all for
each record. The baseline is the file of 10^5 records; a ratio near 1 says that the cost is flat.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc

import numpy as np

from mx_core.testing.benchmark import record
from mx_io.iterators.order import ExampleOrder
from mx_io.pipeline import RecordSource
from mx_io.recordio import IRHeader, MXRecordIO, pack

#: The exponent of the file that others are compared with.
_BASE = 5
_BATCH = 100


def make(folder: str, exponent: int) -> tuple[str, str]:
    """A record file and its index."""
    path, index = f"{folder}/{exponent}.rec", f"{folder}/{exponent}.idx"
    block = f"{folder}/block.rec"
    with MXRecordIO(block, "w") as records:
        for i in range(1000):
            records.write(pack(IRHeader(0, float(i % 10), i, 0), bytes(20)))
    with open(block, "rb") as file:
        content = file.read()
    size = len(content) // 1000
    with open(path, "wb") as file, open(index, "w", encoding="ascii") as lines:
        for thousand in range(10**exponent // 1000):
            file.write(content)
            lines.writelines(f"{i}\t{i * size}\n" for i in range(1000 * thousand, 1000 * (thousand + 1)))
    return path, index


def measure(path: str, index: str) -> dict[str, tuple[float, str]]:
    """Each cost of a record of a file."""
    found: dict[str, tuple[float, str]] = {}

    def timed(begin: float, count: int) -> tuple[float, str]:
        return (time.perf_counter() - begin) / count * 1e9, "ns"

    begin = time.perf_counter()
    plain = RecordSource(path)
    count = len(plain)
    found["opened without an index"] = timed(begin, count)
    begin = time.perf_counter()
    source = RecordSource(path, index)
    found["opened with an index"] = timed(begin, count)
    found["offsets"] = source.offsets.nbytes / count, "bytes"
    tracemalloc.start()
    order = ExampleOrder(count, _BATCH, shuffle=True, seed=1)
    begin = time.perf_counter()
    plans = order.epoch()
    first = next(plans)
    found["shuffled"] = timed(begin, count)
    found["shuffled, memory"] = tracemalloc.get_traced_memory()[0] / count, "bytes"
    tracemalloc.stop()
    batches = [first, *(next(plans) for _ in range(9))]
    source.read(first.examples.tolist())
    begin = time.perf_counter()
    for plan in batches:
        source.read(plan.examples.tolist())
    found["read at random"] = timed(begin, len(batches) * _BATCH)
    draws = np.arange(len(batches) * _BATCH) % count
    begin = time.perf_counter()
    for at in range(0, len(draws), _BATCH):
        source.read(draws[at : at + _BATCH].tolist())
    found["read in order"] = timed(begin, len(draws))
    source.close()
    plain.close()
    return found


def main() -> None:
    """Print a line for each cost and each number of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--largest", type=int, default=7, help="records of the largest file, as a power of ten"
    )
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    results: dict[int, dict[str, tuple[float, str]]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measure(*make(folder, 3))  # what is loaded once is not the first file's
    for exponent in range(3, arguments.largest + 1):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            path, index = make(folder, exponent)
            results[exponent] = measure(path, index)
            os.remove(path)
    base = results[min(_BASE, arguments.largest)]
    for exponent, costs in results.items():
        for name, (value, unit) in costs.items():
            record(f"{name}, 10^{exponent} records", value, f"{unit} a record", baseline=f"10^{_BASE} records",
                   ratio=base[name][0] / value if value else 1.0)  # fmt: skip


if __name__ == "__main__":
    main()
