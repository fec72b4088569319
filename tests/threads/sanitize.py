# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of several threads on extensions built with the thread sanitizer.

`python tests/threads/sanitize.py FOLDER` with `tests/fuzz` on PYTHONPATH builds into FOLDER, keeps what
is unchanged, and ends with 1 when a program fails or a data race is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

import sanitized

PROGRAMS = sorted(p for p in (Path(__file__).parent / "programs").glob("*.py") if p.name != "threads.py")
#: where threads meet; kernels work on memory that the engine has given to one of them
PACKAGES = ("mx-core", "mx-engine", "mx-storage", "mx-ndarray", "mx-symbol", "mx-io")


def run(program: Path, environment: dict[str, str]) -> bool:
    """Runs one program; says whether it ended well and without a report."""
    # The sanitizer needs addresses that some kernels do not leave free at random.
    command = ["setarch", platform.machine(), "-R", sys.executable, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    good = done.returncode == 0 and "WARNING: ThreadSanitizer" not in done.stderr
    print(f"{program.stem}: {'no report' if good else f'exit code {done.returncode}'}", flush=True)
    if not good:
        print(done.stdout, done.stderr, flush=True)
    return good


def main() -> int:
    """Builds, then runs every program or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*", help="by name; none means all")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    sanitized.build(options.folder, "thread", PACKAGES)
    environment = os.environ | sanitized.environment(options.folder, "thread")
    environment |= {"OMP_NUM_THREADS": "1", "MX_THREAD_ROUNDS": str(options.rounds)}
    chosen = [p for p in PROGRAMS if not options.programs or p.stem in options.programs]
    return int(not all([run(program, environment) for program in chosen]))


if __name__ == "__main__":
    sys.exit(main())
