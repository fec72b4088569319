# SPDX-License-Identifier: Apache-2.0
"""What does `import mx` cost, and the first array, beside NumPy and PyTorch?

    python benchmarks/bench_import.py [--rounds 7]

Every measurement is a fresh process; the programs take turns, and medians are printed. Milliseconds are
from the first statement to the last, without the interpreter's own start; MiB are resident memory at the
end, the interpreter's included. A ratio above 1 is cheaper than the baseline.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys

from mx_core.testing.benchmark import record, spread

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
from mx_core.testing.benchmark import record, spread
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
    for baseline, other in (("import numpy", "import mx"), ("torch, first array", "mx, first array")):
        if baseline not in medians:
            print(f"{baseline}: no such baseline here")
            continue
        for i, unit in enumerate(("ms", "MiB")):
            ours, theirs = medians[other][i], medians[baseline][i]
            noise = sum(spread([run[i] for run in taken[name]]) for name in (other, baseline))
            ratio = theirs / ours
            record(other, ours, unit, baseline=baseline, ratio=ratio, spread=noise * ratio)
    for name, (ms, mib) in medians.items():
        print(f"    {name}: {ms:.1f} ms, {mib:.1f} MiB")


if __name__ == "__main__":
    main()
