# SPDX-License-Identifier: Apache-2.0
"""The READMEs and other pages of the repository as pages of the documentation."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: headings of the pages that would be called `mx`, as the whole documentation is
TITLES = {"overview": "The repository", "mx": "The package mx"}

LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def pages(root: Path) -> dict[Path, str]:
    """Source file -> name of its page here."""
    found = {root / "README.md": "overview", root / "CONTRIBUTING.md": "contributing"}
    found[root / "SECURITY.md"] = "security"
    for path in sorted(root.glob("p*s/*/README.md")):
        found[path] = path.parent.name
    return found


def write(target: Path, root: Path) -> None:
    """A copy of each, with links that lead to pages of the documentation."""
    names = pages(root)
    for source, name in names.items():
        text = re.sub(r"```console\n", "```text\n", source.read_text())
        if name in TITLES:
            text = re.sub(r"\A# .*", f"# {TITLES[name]}", text)
        page = target / f"{name}.md"
        page.write_text(linked(text, source, page, root))


def linked(text: str, source: Path, page: Path, root: Path) -> str:
    """A text of `source` whose relative links work on `page`; links to other files become plain text."""
    names = pages(root)
    return LINK.sub(lambda match: _link(match, source, page, names, root), text)


def _link(match: re.Match[str], source: Path, page: Path, names: dict[Path, str], root: Path) -> str:
    label, goal, anchor = match[2], match[3], match[4] or ""
    if re.match(r"[a-z]+:", goal):
        return match[0]
    path = (source.parent / goal).resolve()
    if match[1]:
        return f"![{label}]({os.path.relpath(path, page.parent)})"
    for candidate in (path, path / "README.md", path / "index.md"):
        if candidate in names:
            return f"[{label}]({names[candidate]}.md{anchor})"
        if candidate.is_file() and candidate.suffix == ".md" and root / "docs" in candidate.parents:
            return f"[{label}]({os.path.relpath(candidate, page.parent)}{anchor})"
    return f"{label} (`{path.relative_to(root)}`)"
