# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of oneDNN kernels share: the bare limits and a stopwatch."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import files
from pathlib import Path

import mx_operators_cpu
from mx_operators_cpu.library import native


def library() -> ctypes.CDLL:
    """limit.cc, compiled against the library this package ships (already loaded: found by its name)."""
    header = next(f.locate() for f in files("onednn-devel-cpu-gomp") or () if f.match("include/dnnl.h"))
    here = Path(__file__).parent
    shipped = Path(mx_operators_cpu.__file__).parent / "lib" / "libdnnl.so.3"
    flags = ["-O2", "-std=c++17", "-shared", "-fPIC", f"-I{Path(header).parent}"]
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/limit.so"
        subprocess.check_call(["g++", *flags, str(here / "limit.cc"), "-o", out, str(shipped)])
        loaded = ctypes.CDLL(out)
    loaded.product_limit.restype = ctypes.c_double
    print(f"oneDNN {native.onednn_version()}, {native.threads()} threads")
    return loaded


def best(run: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of the fastest of some runs."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
