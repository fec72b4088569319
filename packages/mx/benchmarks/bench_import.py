# SPDX-License-Identifier: Apache-2.0
"""What does `import mx` cost, and the first array, beside NumPy and PyTorch?

    python benchmarks/bench_import.py [--rounds 7]

Every measurement is a fresh process; the programs take turns, and medians are printed. Milliseconds are
from the first statement to the last, without the interpreter's own start; MiB are resident memory at the
end, the interpreter's included. Ratios are to `import numpy`: below 1 is cheaper.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys

PROGRAMS = {
    "python": ("json", "pass"),
    "import numpy": ("numpy", "import numpy"),
    "numpy, first array": ("numpy", "import numpy; numpy.ones((2, 2)) + 1"),
    "import mx": ("mx", "import mx"),
    "mx, first array": ("mx", "import mx; (mx.nd.ones((2, 2)) + 1).asnumpy()"),
    "import torch": ("torch", "import torch"),
    "torch, first array": ("torch", "import torch; (torch.ones(2, 2) + 1).numpy()"),
}
MEASURE = """
import time
started = time.perf_counter()
{program}
seconds = time.perf_counter() - started
with open("/proc/self/status") as file:
    memory = next(line.split()[1] for line in file if line.startswith("VmRSS"))
print(seconds * 1e3, int(memory) / 1024)
"""


def measure(program: str) -> tuple[float, float]:
    """Milliseconds and MiB of one fresh process."""
    code = MEASURE.format(program=program)
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    milliseconds, mebibytes = map(float, run.stdout.split())
    return milliseconds, mebibytes


def main() -> None:
    """Measures in turns and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds: int = parser.parse_args().rounds
    present = {n: p for n, (module, p) in PROGRAMS.items() if importlib.util.find_spec(module)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in present}
    for program in present.values():
        measure(program)  # once unmeasured: files in the page cache, bytecode written
    for _ in range(rounds):
        for name, program in present.items():
            taken[name].append(measure(program))
    medians = {name: tuple(map(statistics.median, zip(*runs, strict=True))) for name, runs in taken.items()}
    numpy_ms, numpy_mib = medians["import numpy"]
    print(f"{'medians of ' + str(rounds):20} {'ms':>9} {'ratio':>7} {'MiB':>9} {'ratio':>7}")
    for name, (ms, mib) in medians.items():
        print(f"{name:20} {ms:9.1f} {ms / numpy_ms:7.2f} {mib:9.1f} {mib / numpy_mib:7.2f}")
    if "import torch" not in medians:
        print("torch is not installed: no such baseline")


if __name__ == "__main__":
    main()
