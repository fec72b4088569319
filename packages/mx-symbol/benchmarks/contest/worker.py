# SPDX-License-Identifier: Apache-2.0
"""One framework's process: prepares a task, then takes a turn whenever it is told, and says its best time.

    python worker.py MODULE FRAMEWORK FOLDER training|inference DTYPE

A line on stdin is a turn. Answers are lines of JSON: `ready` once, when the first output without training agrees
with ours, or `problem`; then `seconds`. Runs on Python 3.8 too, where MXNet 1.9.1 lives.
"""

import importlib
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
#: largest difference of outputs, of the largest output
TOLERANCE = {"float32": 1e-2, "bfloat16": 0.1}


def main():
    module, framework, folder, part, dtype = sys.argv[1:]
    from timing import turn

    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    try:
        prepare = importlib.import_module("run_" + module).prepare
        step, result = prepare(framework, folder, part == "training", dtype)
        expected = np.load(os.path.join(folder, "expected.npy"))
        error = float(np.abs(np.asarray(result(), np.float32) - expected).max() / np.abs(expected).max())
        if not error < TOLERANCE[dtype]:
            raise ValueError(f"gives other numbers: relative error {error:.2g}")
        for _ in range(2):
            step()
    except Exception as failure:
        first = (str(failure).splitlines() or [""])[0]
        answer(problem=type(failure).__name__ + ": " + first)
        return
    answer(ready=error)
    for _ in sys.stdin:
        answer(seconds=turn(step))


if __name__ == "__main__":
    main()
