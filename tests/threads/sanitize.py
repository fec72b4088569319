# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of several threads on extensions built with the thread sanitizer.

`python tests/threads/sanitize.py FOLDER` with `tests/fuzz` on PYTHONPATH builds into FOLDER, keeps what
is unchanged, and ends with 1 when a program fails or a data race is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import sanitized

PROGRAMS = sorted(p for p in (Path(__file__).parent / "programs").glob("*.py") if p.name != "threads.py")
#: where threads meet; kernels work on memory that the engine has given to one of them
PACKAGES = ("mx-core", "mx-engine", "mx-storage", "mx-ndarray", "mx-symbol", "mx-io", "mx-kvstore")


def spoiled(folder: Path, package: str, source: str, text: str) -> Path:
    """Puts `text` in the place of one source of a package, in a copy of what is built in `folder`.

    Returns
    -------
    Path
        The folder to import the package from. The copy lies beside `folder` and is made anew.
    """
    copy = folder.with_name(f"{folder.name}-spoiled") / package
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(folder / package, copy)
    (copy / source).write_text(text)
    sanitized.build_one(copy, "thread", folder)
    return copy / "src"


def run(program: Path, environment: dict[str, str], limit: float | None) -> bool:
    """Runs one program; says whether it ended well, within `limit` seconds and without a report."""
    # The sanitizer needs addresses that some kernels do not leave free at random.
    command = ["setarch", platform.machine(), "-R", sys.executable, str(program)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        print(f"{program.stem}: no end within {limit} s", flush=True)
        return False
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
    parser.add_argument("--limit", type=float, help="seconds of each program")
    parser.add_argument(
        "--instead", metavar="PACKAGE/SOURCE",
        help="a source that standard input replaces in a copy; the first report ends a program",
    )  # fmt: skip
    options = parser.parse_args()
    folder = options.folder.absolute()
    sanitized.build(folder, "thread", PACKAGES)
    environment = os.environ | sanitized.environment(folder, "thread")
    environment |= {"OMP_NUM_THREADS": "1", "MX_THREAD_ROUNDS": str(options.rounds)}
    if options.instead:
        first = spoiled(folder, *options.instead.split("/", 1), sys.stdin.read())
        environment["PYTHONPATH"] = os.pathsep.join((str(first), environment["PYTHONPATH"]))
        environment["TSAN_OPTIONS"] += ":halt_on_error=1"
    chosen = [p for p in PROGRAMS if not options.programs or p.stem in options.programs]
    return int(not all([run(program, environment, options.limit) for program in chosen]))


if __name__ == "__main__":
    sys.exit(main())
