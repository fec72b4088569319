# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators on arrays of a GiB and more, beside a copy of the same size and PyTorch.

Every page is touched before, bytes are those of inputs and outputs, both sides write to one array that
exists; three arrays of `--mib` are all the memory it takes. All run in turns, the fastest of each counts.

    python bench_large.py [--mib 1024] [--threads 2] [name ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from beside import seconds, torch
from calls import THREADS, aligned, caller

from mx_core.testing.benchmark import record

ROUNDS = 3

#: name, operator, attributes, inputs, PyTorch's function
CASES: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("add", "elemwise_add", {}, 2, "add"),
    ("multiply", "elemwise_mul", {}, 2, "mul"),
    ("divide", "elemwise_div", {}, 2, "div"),
    ("add a number", "_plus_scalar", {"scalar": 2.0}, 1, "add"),
    ("multiply by a number", "_mul_scalar", {"scalar": 2.0}, 1, "mul"),
    ("greater", "_greater", {}, 2, "gt"),
    ("equal", "_equal", {}, 2, "eq"),
    ("less than a number", "_lesser_scalar", {"scalar": 1.0}, 1, "lt"),
    ("maximum", "_maximum", {}, 2, "maximum"),
    ("square root", "sqrt", {}, 1, "sqrt"),
    ("relu", "relu", {}, 1, ""),
    ("exp", "exp", {}, 1, "exp"),
    ("log", "log", {}, 1, "log"),
    ("tanh", "tanh", {}, 1, "tanh"),
    ("sigmoid", "sigmoid", {}, 1, "sigmoid"),
]


def theirs(
    name: str, arrays: list[np.ndarray], attrs: dict[str, Any], out: np.ndarray
) -> Callable[[], object] | None:
    """PyTorch's function to the same output."""
    if torch is None or not name:
        return None
    function = getattr(torch, name)
    given = [torch.from_numpy(a) for a in arrays]
    target = torch.from_numpy(out)
    return lambda: function(*given, *attrs.values(), out=target)


def main() -> None:
    """Measures the cases named on the command line, or all, and prints a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024, help="MiB of one array")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    n = options.mib << 18
    if torch is not None:
        torch.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    x, y, out = (aligned(np.broadcast_to(np.float32(0), (n,))) for _ in range(3))
    for array in (x, y):
        rng.random(dtype=np.float32, out=array)
        array += np.float32(0.5)
    copy, _, _ = caller("_copy", {}, [x], threads=options.threads, into=[out])
    print(f"{options.threads} threads, arrays of {options.mib} MiB; ratios of speeds")
    for name, op, attrs, k, other in CASES:
        if options.names and name not in options.names:
            continue
        inputs = [x, y][:k]
        run, _, _ = caller(op, attrs, inputs, threads=options.threads, into=[out])
        times = seconds([run, copy, theirs(other, inputs, attrs, out)], options.threads, ROUNDS)
        speed, copied = (k + 1) * x.nbytes / times[0] / 1e9, 2 * x.nbytes / times[1] / 1e9
        record(name, speed, "GB/s", baseline="copy", ratio=speed / copied)
        if times[2] < float("inf"):
            record(name, speed, "GB/s", baseline="PyTorch", ratio=times[2] / times[0])


if __name__ == "__main__":
    main()
