# SPDX-License-Identifier: Apache-2.0
"""Programs of several threads, each in a process of its own: no death, no hang, right results.

`nox -s threads` runs the same programs on extensions built with the thread sanitizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROGRAMS = sorted(p for p in (Path(__file__).parent / "programs").glob("*.py") if p.name != "threads.py")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path) -> None:
    # Freed memory is overwritten, also below malloc's thread caches: what is used after free is seen.
    environment = os.environ | {
        "MALLOC_PERTURB_": "165",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "done"
