# SPDX-License-Identifier: Apache-2.0
"""The examples run and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.timeout(120)
def test_cholesky_factors_and_draws_its_graph(tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "cholesky.py", "--size", "130", "--tile", "40", "--picture", picture],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 steps on 4 x 4 tiles")
    found = re.search(r"largest error (\S+)", done.stdout)
    assert found is not None and float(found[1]) < 1e-12
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(picture).getroot()
    assert len(root.findall(f"{svg}rect")) == 20
    # A step after the first needs its own tile's last step and those of what it reads.
    assert len(root.findall(f"{svg}line")) == 30
