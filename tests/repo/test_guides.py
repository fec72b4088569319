# SPDX-License-Identifier: Apache-2.0
"""Guides tell the truth: their Python runs, what they quote stands in the file they name."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = [p for p in sorted((ROOT / "docs" / "guides").glob("*.md")) if "```python" in p.read_text()]
BLOCK = re.compile(
    r"^(?:<!-- from (?P<source>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M
)

examples = pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.stem)


@examples
def test_quotations_are_true(path: Path) -> None:
    for block in BLOCK.finditer(path.read_text()):
        if block["source"]:
            quoted = textwrap.dedent(block["text"])
            file = (ROOT / block["source"]).read_text()
            found = quoted in file or textwrap.indent(quoted, "    ") in file or block["text"] in file
            assert found, f"{path.name}: not in {block['source']}:\n{block['text']}"


@examples
def test_python_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    blocks = [b for b in BLOCK.finditer(path.read_text()) if b["language"] == "python" and not b["source"]]
    script = tmp_path / f"{path.stem}.py"
    script.write_text("\n".join(block["text"] for block in blocks))
    run = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    promised = re.findall(r"^\s*print\(.*\)  # (.+)$", script.read_text(), re.M)
    assert run.stdout.splitlines() == promised
