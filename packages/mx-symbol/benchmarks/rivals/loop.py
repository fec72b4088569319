# SPDX-License-Identifier: Apache-2.0
"""The workers' side: prepare, say so, then time runs whenever asked. Runs on Python 3.8 too."""

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy as np

#: a turn lasts at least this long, seconds
TURN = 0.3


def network(folder):
    """Nodes, heads, arrays by name."""
    described = json.loads((Path(folder) / "network.json").read_text())
    with np.load(Path(folder) / "values.npz") as values:
        return described["nodes"], described["heads"], {name: values[name] for name in values.files}


def numbers(text):
    """A tuple of ints from an attribute."""
    return tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())


def turn(run):
    """Seconds of the best run."""
    best, end = float("inf"), time.perf_counter() + TURN
    while True:
        began = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > end:
            return best


def serve(make):
    """`make(folder, mode, kind)` returns (run, result): a function to time, and the first output's values."""
    folder, mode, kind = sys.argv[1:4]
    answers = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            run, result = make(folder, mode, kind)
            expected = np.load(str(Path(folder) / "expected.npy"))
            error = float(np.abs(np.asarray(result) - expected).max() / np.abs(expected).max())
            if mode == "inference" and not error < 1e-2:
                raise ValueError(f"gives other numbers: relative error {error:.2g}")
            run()
    except Exception as failure:
        first = (str(failure).splitlines() or [""])[0]
        print(f"{type(failure).__name__}: {first}", file=answers)
        return
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        print(turn(run), file=answers, flush=True)
