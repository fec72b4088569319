# SPDX-License-Identifier: Apache-2.0
"""The page that leads from a question to a file leads to files that have what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "where.md"


def rows() -> list[tuple[str, str, str]]:
    """Question, files, names to search for."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "](" in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(question, files, names) for question, files, names in cells]


@pytest.mark.parametrize(("question", "files", "names"), rows(), ids=[row[0] for row in rows()])
def test_files_have_the_names(question: str, files: str, names: str) -> None:
    paths = [(PAGE.parent / goal).resolve() for goal in re.findall(r"\]\(([^)]+)\)", files)]
    assert paths and all(path.is_file() for path in paths), paths
    texts = [path.read_text(encoding="utf-8") for path in paths]
    wanted = re.findall(r"`([^`]+)`", names)
    assert wanted
    for name in wanted:
        assert any(name in text for text in texts), f"{question} No file has {name}"
