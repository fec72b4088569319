# SPDX-License-Identifier: Apache-2.0
"""One framework's process: prepares a task, then takes a turn whenever it is told, and says its times.

    python worker.py MODULE FRAMEWORK FOLDER training|inference DTYPE

A line on stdin is a turn of so many runs. Answers are lines of JSON: `ready` once, when the output without training and
the gradients agree with ours, with the framework's version, or `problem`; then `seconds`. Runs on Python 3.8 too,
where MXNet 1.9.1 lives.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Mapping

import numpy as np

from contest.timing import turn

#: largest difference of outputs, of the largest output
OUTPUTS = {"float32": 1e-2, "bfloat16": 0.1}
#: norm of the differences of all gradients together, of the norm of the gradients
GRADIENTS = {"float32": 1e-2, "bfloat16": 0.3}


def keep_freed_memory() -> None:
    """Tells glibc to give nothing back to the system: pages of large results are not mapped anew for every step."""
    trim_threshold, mmap_threshold = -1, -3  # M_ constants of glibc
    for option in (trim_threshold, mmap_threshold):
        ctypes.CDLL(None).mallopt(option, 2**31 - 1)


def check_outputs(found: np.ndarray, folder: str, dtype: str) -> None:
    """Raises ValueError when the output is not ours."""
    expected = np.load(os.path.join(folder, "expected.npy"))
    error = float(np.abs(np.asarray(found, np.float32) - expected).max() / np.abs(expected).max())
    if not error < OUTPUTS[dtype]:
        raise ValueError(f"gives other numbers: relative error {error:.2g}")


def check_gradients(found: Mapping[str, np.ndarray], folder: str, dtype: str) -> None:
    """Raises ValueError when a gradient is missing, or they are not ours."""
    path = os.path.join(folder, "gradients.npz")
    if not os.path.exists(path):
        return  # the network draws random numbers
    apart = size = 0.0
    with np.load(path) as expected:
        for name in expected.files:
            ours = expected[name].astype(np.float64)
            apart += float(((np.asarray(found[name], np.float64) - ours) ** 2).sum())
            size += float((ours**2).sum())
    error = (apart / size) ** 0.5
    if not error < GRADIENTS[dtype]:
        raise ValueError(f"gives other gradients: relative error {error:.2g}")


def main() -> None:
    """Prepares, then takes turns until its input ends."""
    module, framework, folder, part, dtype = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer

    def answer(**values: object) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        keep_freed_memory()
        runner = importlib.import_module("contest.run_" + module)
        step, result, gradients = runner.prepare(framework, folder, part == "training", dtype)
        check_outputs(result(), folder, dtype)
        if part == "training":
            check_gradients(gradients(), folder, dtype)
    except Exception as failure:
        first = (str(failure).splitlines() or [""])[0]
        answer(problem=type(failure).__name__ + ": " + first)
        raise
    answer(ready=importlib.import_module(module).__version__)
    for line in sys.stdin:
        answer(seconds=turn(step, int(line)))


if __name__ == "__main__":
    main()
