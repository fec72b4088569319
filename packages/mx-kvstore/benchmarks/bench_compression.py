# SPDX-License-Identifier: Apache-2.0
"""How fast the gradients of ResNet-50, 25.6 million floats, become codes and floats again, on one thread.

The baselines run in the same rounds: the same arithmetic in NumPy, and a plain copy of the floats. The arithmetic reads
gradient and residual and writes the residual, which is half as much again as the copy reads and writes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from mx_core.testing.benchmark import record, spread
from mx_kvstore.compression import Compression

ELEMENTS = 25_557_032
ROUNDS = 7


def seconds(function: Callable[[], None]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main() -> None:
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=ELEMENTS, scale=0.3).astype(np.float32)
    residual, out, sent = (np.zeros(ELEMENTS, np.float32) for _ in range(3))
    numpy_residual = residual.copy()
    threshold = np.float32(0.5)

    def numpy() -> None:  # without the codes
        np.add(numpy_residual, gradient, out=numpy_residual)
        np.multiply(numpy_residual >= threshold, threshold, out=sent)
        np.subtract(sent, (numpy_residual <= -threshold) * threshold, out=sent)
        np.subtract(numpy_residual, sent, out=numpy_residual)

    def copy() -> None:
        np.copyto(out, gradient)

    for kind in ("2bit", "1bit"):
        compression = Compression(kind, 0.5)
        codes = np.zeros(compression.words(ELEMENTS), np.uint32)
        runs: dict[str, Callable[[], None]] = {
            "compress": partial(compression.compress, gradient, residual, codes),
            "expand": partial(compression.expand, codes, out),
            "add": partial(compression.expand, codes, out, add=True),
            "copy": copy,
        }
        if kind == "2bit":
            runs["numpy"] = numpy
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS + 2):
            for name, run in runs.items():
                taken[name].append(seconds(run))
        kept = {name: values[2:] for name, values in taken.items()}
        for name in ("compress", "expand", "add"):
            for baseline in ("copy", "numpy"):
                if baseline not in kept or (baseline == "numpy" and name != "compress"):
                    continue
                found = statistics.median(kept[name])
                ratio = statistics.median(kept[baseline]) / found
                noise = (spread(kept[name]) + spread(kept[baseline])) * ratio
                record(f"{kind} {name}", found * 1e3, "ms", baseline=baseline, ratio=ratio, spread=noise)


if __name__ == "__main__":
    main()
