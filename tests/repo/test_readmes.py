# SPDX-License-Identifier: Apache-2.0
"""The Python examples of a README run, one after the other, and print what comments behind print promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("p*s/*/README.md"))]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


def promised(block: str) -> list[str]:
    """Comments behind print calls: the output."""
    return [m[1].strip() for m in re.finditer(r"^print\(.*\)\s+# (.+)$", block, re.M)]


@pytest.mark.parametrize("path", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(path: Path, tmp_path: Path) -> None:
    found = blocks(path)
    assert found, f"{path} has no example"
    program = "\n".join(found)
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    for line in promised(program):
        assert line in run.stdout, f"{path} promises {line!r}, got\n{run.stdout}"
