# SPDX-License-Identifier: Apache-2.0
"""What runs of CPU kernels allocate: programs that count it, and the library that they run under."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def build(folder: Path) -> Path:
    """Compiles the library that counts."""
    made = folder / "libcounter.so"
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-fvisibility=hidden",
            str(HERE / "counter.c"),
            "-o",
            str(made),
            "-ldl",
        ],
        check=True,
    )
    return made


def run(counter: Path, program: str, *arguments: str) -> dict[str, Any]:
    """What a program of this folder found, by kernel; "ran" is the number of kernels that it ran."""
    path = os.pathsep.join(str(ROOT / part) for part in ("tests", "tests/fuzz"))
    done = subprocess.run(
        [sys.executable, str(HERE / program), *arguments],
        env={**os.environ, "LD_PRELOAD": str(counter), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, f"{done.returncode} {done.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
