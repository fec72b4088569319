# SPDX-License-Identifier: Apache-2.0
"""The page that leads from a question to a file leads to files that have what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "where.md"


def rows() -> list[tuple[str, str, str]]:
    """Question, files, names to search for; of what is no row of a table, a paragraph or an item of a list thrice."""
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|") and "](" in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    prose = "\n".join("" if line.startswith("|") else line for line in text.splitlines())
    blocks = [" ".join(block.split()) for block in re.split(r"\n\n|\n(?=- |\d\. )", prose) if "](" in block]
    return [(question, files, names) for question, files, names in cells] + [(b, b, b) for b in blocks]


@pytest.mark.parametrize(("question", "files", "names"), rows(), ids=[row[0] for row in rows()])
def test_files_have_the_names(question: str, files: str, names: str) -> None:
    paths = [(PAGE.parent / goal).resolve() for goal in re.findall(r"\]\(([^)]+)\)", files)]
    assert paths and all(path.is_file() for path in paths), paths
    texts = [path.read_text(encoding="utf-8") for path in paths]
    wanted = re.findall(r"`([^`]+)`", names)
    assert wanted
    for name in wanted:
        assert any(name in text for text in texts), f"{question} No file has {name}"
