# SPDX-License-Identifier: Apache-2.0
"""Operators of ours and functions of PyTorch's on the same arrays, in turns, and the bandwidth of a copy.

Both sides run in turns, the fastest run of each counts. Ours write to arrays that exist, as planned
programs do, updates to the weights; freed memory stays with the process, so that PyTorch's new arrays
cost no page faults either. Bytes are those of inputs and outputs. With one thread its CPU time is taken,
which other load on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from calls import THREADS, aligned, caller, referee

from mx_core.testing.benchmark import record

try:
    import torch
except ImportError:
    torch = None

__all__ = ["Case", "main", "seconds", "torch"]

ROUNDS = 5
PAUSE = 0.01  # seconds


class Case(NamedTuple):
    """An operator of ours and the function of PyTorch's that does the same to the same arrays."""

    name: str
    op: str
    attrs: dict[str, Any]
    inputs: Sequence[np.ndarray]
    theirs: Callable[..., Any] | None
    onto: Sequence[int] = ()  # the inputs that outputs are written to, as PyTorch's function does


def seconds(runs: Sequence[Callable[[], object] | None], threads: int, rounds: int = ROUNDS) -> list[float]:
    """The fastest of each, in turns.

    Several threads: PyTorch's idle ones keep the processors busy for milliseconds. Each turn begins when
    they sleep, with a run that wakes its own.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = [float("inf")] * len(runs)
    for _ in range(rounds + 1):
        for i, run in enumerate(runs):
            if run is not None:
                if threads > 1:
                    time.sleep(PAUSE)
                    run()
                start = clock()
                run()
                times[i] = min(times[i], clock() - start)
    return times


def tensor(array: np.ndarray) -> Any:
    """PyTorch's view of an array."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def report(case: Case, copy: float, threads: int, reference: bool) -> None:
    """One line: milliseconds, bandwidth, ratios of speeds; with `reference` to NumPy's, too."""
    inputs = [aligned(x) for x in case.inputs]
    into = [inputs[i] for i in case.onto]
    run, outputs, variant = caller(case.op, case.attrs, inputs, threads=threads, into=into)
    theirs = None
    if torch is not None and case.theirs is not None:
        given, function = [tensor(x) for x in inputs], case.theirs
        theirs = partial(function, *given)
    ours, other = seconds([run, theirs], threads)
    size = sum(a.nbytes for a in (*inputs, *outputs))
    name, speed = f"{case.name} ({variant})", size / ours / 1e9
    record(name, speed, "GB/s", baseline="copy", ratio=speed / copy)
    if theirs is not None:
        record(name, ours * 1e3, "ms", baseline="PyTorch", ratio=other / ours)
    if reference:
        slow = seconds([referee(case.op, case.attrs, inputs)], threads, 0)[0]
        record(name, ours * 1e3, "ms", baseline="reference", ratio=slow / ours)


def keep_freed_memory() -> None:
    """Tells the C library to give nothing back to the system."""
    trim_threshold, mmap_threshold = -1, -3  # M_ constants of glibc
    for option in (trim_threshold, mmap_threshold):
        ctypes.CDLL(None).mallopt(option, 2**31 - 1)


def main(cases: Iterable[Case]) -> None:
    """Measures the cases named on the command line, or all, and prints a line for each."""
    keep_freed_memory()
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--reference", action="store_true", help="beside NumPy's references, too")
    parser.add_argument("names", nargs="*", help="cases, up to a comma")
    options = parser.parse_args()
    threads, wanted = options.threads, options.names
    x = np.ones((4096, 4096), np.float32)
    copy_run, _, _ = caller("_copy", {}, [aligned(x)], threads=threads)
    copy = 2 * x.nbytes / seconds([copy_run], threads)[0] / 1e9
    if torch is not None:
        torch.set_num_threads(threads)
    print(f"{threads} threads, copy {copy:.1f} GB/s; ratios of speeds")
    for case in cases:
        if not wanted or case.name.split(",")[0] in wanted:
            report(case, copy, threads, options.reference)
