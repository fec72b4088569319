# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.seeded [WORD ...]`: each bug of `tests/seeded.toml` must be found within a minute."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .distributions import ROOT, distributions
from .mutation import native
from .mutation.mutant import Mutant
from .mutation.trial import Copy, installed

MINUTE = 60.0
WORK = ROOT / ".nox" / "seeded"
#: the programs of threads, and where their session builds
THREADS, PARTS = ROOT / "tests" / "threads", ROOT / ".nox" / "threads-parts"


@dataclass(frozen=True)
class Bug:
    """One entry of the list.

    Attributes
    ----------
    name : str
        What is wrong.
    package : str
        The distribution.
    before, after : str
        Text of one of its sources, and what takes its place.
    program : str
        The C++ test that must find it, or
    tests : str
        the tests in Python that must, as pytest names them, or
    threads : str
        the program of `tests/threads` in which the thread sanitizer must report a race.
    sanitizer : str
        What the C++ test is built with; none if empty.
    """

    name: str
    package: str
    before: str
    after: str
    program: str = ""
    tests: str = ""
    threads: str = ""
    sanitizer: str = ""

    def mutant(self) -> Mutant:
        """The changed source.

        Raises
        ------
        LookupError
            The text to change does not stand exactly once in the package.
        """
        distribution = distributions()[self.package]
        folder = distribution.folder / "src"
        files = sorted(folder.rglob("*.py")) if self.tests else native.sources(distribution)
        found = [(file, source) for file in files if self.before in (source := file.read_text())]
        if len(found) != 1 or found[0][1].count(self.before) != 1:
            places = ", ".join(file.name for file, _ in found) or "none of its sources"
            raise LookupError(
                f"{self.name!r}: expected its text once in {self.package}, found it in {places}"
            )
        file, source = found[0]
        line = source[: source.index(self.before)].count("\n") + 1
        return Mutant.of(file, source, source.replace(self.before, self.after), line, self.name)


def bugs(path: Path = ROOT / "tests" / "seeded.toml") -> list[Bug]:
    """All entries."""
    return [Bug(**entry) for entry in tomllib.loads(path.read_text())["bug"]]


def trees(chosen: Sequence[Bug]) -> dict[tuple[str, str], native.Tree]:
    """Built sources of the packages that the bugs are in, by package and sanitizer."""
    made: dict[tuple[str, str], native.Tree] = {}
    for bug in chosen:
        key = (bug.package, bug.sanitizer)
        if bug.program and key not in made:
            options = [f"-DMX_SANITIZE={bug.sanitizer}"] if bug.sanitizer else []
            programs = [b.program for b in chosen if b.program and (b.package, b.sanitizer) == key]
            folder = WORK / f"{bug.package}-{bug.sanitizer or 'plain'}"
            made[key] = native.Tree(
                distributions()[bug.package], folder, sys.executable, *options, programs=programs
            )
            if made[key].seconds > MINUTE * len(set(programs)):
                raise TimeoutError(
                    f"{', '.join(programs)} of {bug.package}: more than a minute without a bug"
                )
    return made


def find_race(bug: Bug, mutant: Mutant) -> tuple[str, str]:
    """Tries a bug in native code that a program of `tests/threads` runs; `killed` if a race is reported."""
    command = [sys.executable, str(THREADS / "sanitize.py"), str(PARTS), bug.threads]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "fuzz")}
    subprocess.run(command, env=environment, check=True)  # without the bug there is none
    source = f"{bug.package}/{mutant.file.relative_to(distributions()[bug.package].folder)}"
    changed = subprocess.run(
        [*command, "--instead", source, "--limit", str(MINUTE)],
        env=environment, input=mutant.source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    report = re.search("WARNING: (ThreadSanitizer: data race)", changed.stdout)
    return ("killed", f"{bug.threads}: {report[1]}") if report else ("survived", changed.stdout[-300:])


def find(bug: Bug, built: dict[tuple[str, str], native.Tree]) -> tuple[str, str]:
    """Tries one bug; see `Outcome` for what is returned."""
    mutant = bug.mutant()
    if bug.program:
        tree = built[bug.package, bug.sanitizer]
        return tree.run(mutant.file, mutant.source, MINUTE, bug.program)
    if bug.threads:
        return find_race(bug, mutant)
    package = installed(bug.package)
    if package is None:
        raise LookupError(f"{bug.package} is not installed")
    copy = Copy(package, WORK / f"{bug.package}-python")
    return copy.run(sys.executable, mutant.moved(package), [bug.tests], MINUTE)


def main(words: Sequence[str]) -> int:
    """Returns 1 if a bug was not found."""
    chosen = [bug for bug in bugs() if not words or any(word in bug.name for word in words)]
    os.environ.setdefault("MX_TEST_PROGRAMS", "60")  # of test_random_programs, so that it ends in time
    built = trees(chosen)
    missed = 0
    for bug in chosen:
        started = time.monotonic()
        kind, detail = find(bug, built)
        missed += kind != "killed"
        verdict = {"killed": "found", "survived": "MISSED"}.get(kind, kind)
        print(
            f"{verdict:7} {time.monotonic() - started:5.1f} s  {bug.package}: {bug.name}\n        {detail}",
            flush=True,
        )
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
