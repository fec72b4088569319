# SPDX-License-Identifier: Apache-2.0
"""A changed source file, and what became of it."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from tools.distributions import ROOT


@dataclass(frozen=True)
class Mutant:
    """One file with one change.

    Attributes
    ----------
    file : Path
        Which file, as it lies in the checkout or in an installed package.
    line : int
        Where the change begins, from 1.
    operator : str
        What changed it.
    before, after : str
        The changed lines without indentation, joined by one space.
    source : str
        All of the changed file.
    """

    file: Path
    line: int
    operator: str
    before: str
    after: str
    source: str

    @classmethod
    def of(cls, file: Path, source: str, changed: str, line: int, operator: str) -> Mutant:
        """Compares the sources."""
        lines = list(difflib.ndiff(source.splitlines(), changed.splitlines()))
        before, after = (
            " ".join(text[2:].strip() for text in lines if text.startswith(sign) and text[2:].strip())
            for sign in ("- ", "+ ")
        )
        return cls(file, line, operator, before, after, changed)

    def moved(self, package: Path) -> Mutant:
        """The same change in another copy of the package, whose folder is `package`."""
        parts = self.file.parts
        last = max(i for i, part in enumerate(parts) if part == package.name)
        return replace(self, file=package.joinpath(*parts[last + 1 :]))

    @property
    def key(self) -> str:
        """Text that names it as long as the changed lines stay as they are."""
        return f"{self.file.name}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a mutant.

    Attributes
    ----------
    kind : str
        `killed`, `survived` or `judged`: it survived and is known to behave like the original.
    detail : str
        The first test that failed, that the time ran out, how many tests passed, or why it is the same.
    """

    mutant: Mutant
    kind: str
    detail: str

    def __str__(self) -> str:
        where = f"{self.mutant.file.parent.name}/{self.mutant.file.name}:{self.mutant.line}"
        change = f"{self.mutant.before}  ->  {self.mutant.after}"
        return f"{self.kind:8} {where} {self.mutant.operator}\n         {change}\n         {self.detail}"


def judged(path: Path = ROOT / "tests" / "mutants.toml") -> dict[str, str]:
    """Why mutants behave like the original, by key."""
    entries = tomllib.loads(path.read_text()).get("mutant", [])
    return {f"{entry['file']}: {entry['before']} -> {entry['after']}": entry["why"] for entry in entries}
