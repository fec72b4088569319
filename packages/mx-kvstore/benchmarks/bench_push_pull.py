# SPDX-License-Identifier: Apache-2.0
"""How fast gradients of two devices are summed and the sum handed back.

The baselines run in the same rounds: NumPy doing the same arithmetic, one copy after the other, and
a plain copy, whose bandwidth (bytes read + written) is the limit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import mx_kvstore
from mx_core import cpu
from mx_core.testing.benchmark import record, spread
from mx_ndarray import nd, waitall

SIZES = [2048 * 1000, *([512 * 512 * 9] * 6), *([256 * 256 * 9] * 10), *([1024] * 60)]  # floats


def seconds(function: Callable[[], None]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main() -> None:
    total = 4 * sum(SIZES)
    keys = list(range(len(SIZES)))
    store = mx_kvstore.create("local")
    store.init(keys, [nd.zeros((n,)) for n in SIZES])
    pushed = [[nd.ones((n,), ctx=cpu(i)) for i in range(2)] for n in SIZES]
    pulled = [[nd.zeros((n,), ctx=cpu(i)) for i in range(2)] for n in SIZES]
    arrays = [[np.ones(n, np.float32) for _ in range(5)] for n in SIZES]
    source, target = np.ones(total // 4, np.float32), np.zeros(total // 4, np.float32)

    def ours() -> None:
        for key in keys:
            store.push(key, pushed[key], priority=-key)
            store.pull(key, pulled[key], priority=-key)
        waitall()

    def numpy() -> None:
        for a, b, stored, first, second in arrays:
            np.add(a, b, out=stored)
            np.copyto(first, stored)
            np.copyto(second, stored)

    def copy() -> None:
        np.copyto(target, source)

    runs = {"store": ours, "numpy": numpy, "copy": copy}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(12):
        for name, run in runs.items():
            taken[name].append(seconds(run))
    median = {name: statistics.median(values[2:]) for name, values in taken.items()}
    moved = 3 * total + 4 * total  # the sum reads two and writes one, each pull reads and writes one
    bandwidth = {
        "store": moved / median["store"],
        "numpy": moved / median["numpy"],
        "copy": 2 * total / median["copy"],
    }
    print(f"{len(SIZES)} keys, {total / 1e6:.0f} MB per device, 2 devices")
    rate = bandwidth["store"]
    for name in ("numpy", "copy"):
        noise = sum(spread(taken[way][2:]) for way in ("store", name))
        ratio = rate / bandwidth[name]
        record("push and pull", rate / 1e9, "GB/s", baseline=name, ratio=ratio, spread=noise * ratio)


if __name__ == "__main__":
    main()
