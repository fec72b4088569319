# SPDX-License-Identifier: Apache-2.0
"""The examples reach what they assert, and are short."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))
#: those of the default run; the others train for longer
QUICK = ("factorisation", "two_contexts")
CASES = [
    pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem)
    for path in EXAMPLES
]


@pytest.mark.long
@pytest.mark.parametrize("path", CASES)
def test_an_example_reaches_what_it_asserts(path: Path, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == "", "a warning disturbs readers"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_asserts_something(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 120 and "SPDX-License-Identifier: Apache-2.0" in text[:100]
    nodes = list(ast.walk(ast.parse(text)))
    assert any(isinstance(node, ast.Assert) for node in nodes)
    own = [
        name.name
        for node in nodes
        if isinstance(node, ast.Import)
        for name in node.names
        if "mx" in name.name
    ]
    assert own == ["mx"]
