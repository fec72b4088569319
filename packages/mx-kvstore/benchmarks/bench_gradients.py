# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, through the stores of one process.

Each key is exchanged by itself, in the order in which backward makes the gradients, as `Module` and `Trainer` do, on
one device and on two. The limit runs in the same rounds: copies on one thread of as many bytes as the exchange has to
read and write. With MX_BENCH_MXNET_PYTHON, an interpreter that has MXNet, its stores do the same in the same minute.
MXNet writes less on one device: its value is the gradient itself.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 9


def exchange(
    store: Any, sizes: list[int], arrays: Any, devices: int, cpu: Any, finish: Callable[[], None]
) -> Callable[[], float]:
    """A function that exchanges gradients of so many elements once and gives the seconds that it took."""
    keys = list(range(len(sizes)))
    pushed = [[arrays.ones((n,), cpu(i)) for i in range(devices)] for n in sizes]
    pulled = [[arrays.zeros((n,), cpu(i)) for i in range(devices)] for n in sizes]
    for key in keys:
        store.init(key, pulled[key][0])
    finish()

    def run() -> float:
        begin = time.perf_counter()
        for key in reversed(keys):
            store.push(key, pushed[key], priority=-key)
            store.pull(key, pulled[key], priority=-key)
        finish()
        return time.perf_counter() - begin

    def fused() -> float:
        begin = time.perf_counter()
        for key in reversed(keys):
            store.pushpull(key, pushed[key], out=pulled[key], priority=-key)
        finish()
        return time.perf_counter() - begin

    return fused if hasattr(store, "pushpull") else run


def copying(size: int, devices: int) -> Callable[[], float]:
    """Copies that read and write what an exchange reads and writes: gradients in, the value and the results out."""
    n = size * (2 * devices + 1) // 2
    source, target = np.ones(n, np.float32), np.zeros(n, np.float32)

    def run() -> float:
        begin = time.perf_counter()
        np.copyto(target, source)
        return time.perf_counter() - begin

    return run


def of_mxnet(sizes: list[int]) -> None:
    """What the interpreter of MXNet runs: prints the seconds of each case."""
    mx: Any = import_module("mxnet")
    for kind in ("local", "device"):
        for devices in (1, 2):
            run = exchange(mx.kv.create(kind), sizes, mx.nd, devices, mx.cpu, mx.nd.waitall)
            print(json.dumps([kind, devices, [run() for _ in range(ROUNDS + 2)][2:]]), flush=True)


def main() -> None:
    import mx_kvstore
    from mx_core import cpu
    from mx_core.testing.benchmark import record, spread
    from mx_core.testing.exchange import resnet50_shapes
    from mx_ndarray import nd, waitall

    sizes = [math.prod(shape) for shape in resnet50_shapes()]
    theirs: dict[tuple[str, int], list[float]] = {}
    interpreter = os.environ.get("MX_BENCH_MXNET_PYTHON")
    if interpreter:
        done = subprocess.run(
            [interpreter, str(Path(__file__)), json.dumps(sizes)], capture_output=True, text=True, check=True
        )
        for kind, devices, taken in map(json.loads, done.stdout.splitlines()):
            theirs[kind, devices] = taken
    total = 4 * sum(sizes)
    print(f"{len(sizes)} keys, {total / 1e6:.0f} MB per device")
    for kind in ("local", "device"):
        for devices in (1, 2):
            ours = exchange(mx_kvstore.create(kind), sizes, nd, devices, cpu, waitall)
            limit = copying(sum(sizes), devices)
            rounds = [(ours(), limit()) for _ in range(ROUNDS + 2)][2:]
            taken = statistics.median(a for a, _ in rounds)
            others = {"copies": [b for _, b in rounds], "MXNet": theirs.get((kind, devices), [])}
            for name, other in others.items():
                if not other:
                    continue
                ratio = statistics.median(other) / taken
                noise = (spread([a for a, _ in rounds]) + spread(other)) * ratio
                case = f"{kind}, {devices} device{'s' if devices > 1 else ''}"
                record(case, taken * 1e3, "ms", baseline=name, ratio=ratio, spread=noise)


if __name__ == "__main__":
    of_mxnet(json.loads(sys.argv[1])) if sys.argv[1:] else main()
