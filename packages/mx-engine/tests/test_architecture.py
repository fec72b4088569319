# SPDX-License-Identifier: Apache-2.0
"""The programs in the engine's architecture page do what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "architecture" / "engine.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not part of the package")
@pytest.mark.timeout(60)
def test_its_python_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    assert len(blocks) == 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
