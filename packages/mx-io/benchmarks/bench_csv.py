# SPDX-License-Identifier: Apache-2.0
"""How many rows a second does CSVIter give?

    python benchmarks/bench_csv.py [--rows 100000] [--columns 10]

A file of random numbers with six digits is opened and read for one epoch in batches of 100. Baselines: NumPy reads the
same file into an array (the goal is a ratio near 1), and MXNet's CSVIter, of the Python in MX_BENCH_MXNET_PYTHON.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from typing import Any

BATCH = 100


def seconds(io: Any, path: str, columns: int) -> float:
    """Of opening and one epoch, with the `io` of mx or MXNet."""
    begin = time.perf_counter()
    for batch in io.CSVIter(data_csv=path, data_shape=(columns,), batch_size=BATCH):
        batch.data[0].wait_to_read()
    return time.perf_counter() - begin


def theirs(path: str, columns: int) -> float | None:
    """Seconds of MXNet, in its own Python; None without it."""
    python = os.environ.get("MX_BENCH_MXNET_PYTHON")
    if not python:
        return None
    done = subprocess.run(
        [python, __file__, "--mxnet", path, "--columns", str(columns)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print rows a second, and their ratios to the baselines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mxnet", metavar="PATH", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mxnet:
        print(seconds(import_module("mxnet").io, arguments.mxnet, arguments.columns))
        return
    compare(arguments.rows, arguments.columns, arguments.rounds)


def compare(rows: int, columns: int, rounds: int) -> None:
    """In turns, medians."""
    import numpy as np

    from mx_core.testing.benchmark import record, spread

    io = import_module("mx_io.io")
    found: dict[str, list[float]] = {"ours": [], "numpy.loadtxt": [], "MXNet's CSVIter": []}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        np.savetxt(path, np.random.default_rng(0).normal(size=(rows, columns)), "%.6g", ",")
        for _ in range(rounds):
            found["ours"].append(seconds(io, path, columns))
            begin = time.perf_counter()
            np.loadtxt(path, np.float32, delimiter=",", comments=None)
            found["numpy.loadtxt"].append(time.perf_counter() - begin)
            if (taken := theirs(path, columns)) is not None:
                found["MXNet's CSVIter"].append(taken)
    ours = found.pop("ours")
    for name, times in found.items():
        if not times:
            print(f"missing as a baseline: {name}", file=sys.stderr)
            continue
        ratio = statistics.median(times) / statistics.median(ours)
        noise = (spread(ours) + spread(times)) * ratio
        record(f"CSVIter, {rows:,} rows of {columns}", rows / statistics.median(ours), "rows/s", baseline=name,
               ratio=ratio, spread=noise)  # fmt: skip


if __name__ == "__main__":
    main()
