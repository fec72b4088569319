# SPDX-License-Identifier: Apache-2.0
"""One framework's process: prepares a task, then runs it as often as it is told, and says how long it took.

    python worker.py FRAMEWORK FOLDER training|inference DTYPE

Reads numbers of iterations from stdin, a line each, and answers with seconds. The first answer is `ready` with
the sum of absolute outputs, by which results are compared. Runs on Python 3.8 too, where MXNet 1.9.1 lives.
"""

import importlib
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    framework, folder, part, dtype = sys.argv[1:]
    sys.path.insert(0, HERE)
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    module = importlib.import_module("run_" + framework.split(".")[0])
    step, finish, total = module.prepare(framework, folder, part == "training", dtype)
    step()
    step()
    finish()
    print(json.dumps({"ready": total()}), file=answers, flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            step()
        finish()
        print(json.dumps({"seconds": time.perf_counter() - began}), file=answers, flush=True)


if __name__ == "__main__":
    main()
