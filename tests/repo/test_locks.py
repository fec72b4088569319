# SPDX-License-Identifier: Apache-2.0
"""What becomes of each lock at a fork is written down: a forked child would find it taken for ever."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture" / "locks.md"
#: a lock that is declared or made
NATIVE = re.compile(
    r"^\s*(?:(?:static|mutable|inline|alignas\(\d+\))\s+)*"
    r"(?:std::(?:recursive_|shared_|timed_)?mutex|std::once_flag|(?:mx::(?:engine::)?)?(?:Spin|Fork)Lock|SpinMutex|Mutex|Lock)\s+\w+\s*[;={]"
    r"|new std::mutex|std::array<std::mutex|StripedMutex<\w+>(?:::of|;)",
    re.MULTILINE,
)
PYTHON = re.compile(r"\b(?:threading\.)?(?:R?Lock|Condition)\(\)")


def with_locks() -> list[tuple[str, str]]:
    """Distribution and name of each source that has a lock."""
    found = set()
    for folder in (*ROOT.glob("p*s/*/csrc"), *ROOT.glob("p*s/*/src")):
        for path in folder.rglob("*"):
            kinds = {".cc": NATIVE, ".hpp": NATIVE, ".h": NATIVE, ".py": PYTHON}
            if path.suffix in kinds and kinds[path.suffix].search(path.read_text()):
                found.add((folder.parent.name, path.name))
    return sorted(found)


def in_the_table() -> set[tuple[str, str]]:
    rows = (line.split("|")[1].split() for line in PAGE.read_text().splitlines() if line.startswith("| `"))
    return {(words[0].strip("`"), word.strip("`,")) for words in rows for word in words[1:]}


def test_the_page_says_of_every_lock_what_a_fork_does_to_it() -> None:
    found = with_locks()
    assert len(found) > 40
    assert set(found) - in_the_table() == set(), f"{PAGE.name} lacks them"
    assert in_the_table() - set(found) == set(), f"{PAGE.name} has what has no lock"


def test_cached_properties_take_no_lock() -> None:
    found = [
        str(path.relative_to(ROOT))
        for src in [*ROOT.glob("packages/*/src"), *ROOT.glob("plugins/*/src")]
        for path in src.rglob("*.py")
        if re.search(r"from functools import .*cached_property|functools\.cached_property", path.read_text())
        and path.name != "cached.py"
    ]
    assert not found, "mx_core.cached.cached_property takes none"
