# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.mutation [PACKAGE ...] --seed 1 --count 20`: samples mutants of packages and reports survivors."""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from tools.distributions import ROOT, Distribution, distributions

from . import native, sample
from .covering import cover
from .extension import Extension, near_first
from .mutant import Mutant, Outcome, judged
from .trial import Copy, installed

WORK = ROOT / ".nox" / "mutation"
GOAL = 0.9  # of the mutants that behave unlike the original
SANITIZED = "-DMX_SANITIZE=thread"
Trial = Callable[[Mutant], tuple[str, str]]


def of_python(distribution: Distribution, seed: int, budget: float) -> tuple[Iterator[Mutant], Trial] | None:
    """Mutants of a package's Python, and what tries one; None if it has no tests."""
    tests, package = distribution.folder / "tests", installed(distribution.name)
    if not tests.exists() or package is None:
        return None
    covering = cover(sys.executable, package, tests, WORK / distribution.name)
    copy = Copy(package, WORK / distribution.name / "copy")

    def try_one(mutant: Mutant) -> tuple[str, str]:
        chosen = covering.choose(mutant.file, mutant.line, budget)
        limit = 60 + 5 * sum(covering.seconds[name] for name in chosen)
        return copy.run(sys.executable, mutant, chosen, limit)

    return sample.mutants(sorted(package.rglob("*.py")), f"{seed} {distribution.name}"), try_one


def of_native(
    distribution: Distribution, seed: int, budget: float, threads: bool
) -> tuple[Iterator[Mutant], Trial] | None:
    """Mutants of a package's C++, and what tries one; None if it has no C++ tests.

    What the C++ tests let live is tried on the tests in Python, but for what only a sanitizer sees.
    """
    if not (distribution.folder / "tests" / "cpp" / "CMakeLists.txt").exists():
        return None
    kind = "thread" if threads else "plain"
    folder = WORK / f"{distribution.name}-{kind}"
    tree = native.Tree(distribution, folder, sys.executable, *([SANITIZED] if threads else []))
    drawn = native.mutants(native.sources(distribution), f"{seed} {distribution.name}", threads)
    in_python = None if threads else on_extension(distribution, budget)

    def try_one(mutant: Mutant) -> tuple[str, str]:
        kind, detail = tree.run(mutant.file, mutant.source, 300)
        if kind != "survived" or in_python is None:
            return kind, detail
        kind, more = in_python(mutant)
        return kind, f"{detail}, {more}" if kind == "survived" else more

    return drawn, try_one


def on_extension(distribution: Distribution, budget: float) -> Trial | None:
    """Tries a mutant of a package's C++ on its tests in Python; None if there is no extension or no test."""
    tests, package = distribution.folder / "tests", installed(distribution.name)
    if (
        package is None
        or not (distribution.folder / "setup.py").exists()
        or not any(tests.rglob("test_*.py"))
    ):
        return None
    work = WORK / distribution.name

    @functools.cache  # takes minutes, and often no mutant needs it
    def prepared() -> tuple[dict[str, float], Extension]:
        seconds = cover(sys.executable, package, tests, work).seconds
        return seconds, Extension(distribution.folder, package, work / "extension", sys.executable)

    def try_one(mutant: Mutant) -> tuple[str, str]:
        seconds, extension = prepared()
        chosen = near_first(mutant.file.relative_to(distribution.folder), seconds, budget)
        return extension.run(sys.executable, mutant, chosen, 60 + 5 * sum(seconds[name] for name in chosen))

    return try_one


def outcomes(drawn: Iterator[Mutant], trial: Trial, count: int, known: dict[str, str]) -> list[Outcome]:
    """Tries mutants one after the other and prints what became of each."""
    done: list[Outcome] = []
    for mutant in drawn:
        if len(done) == count:
            break
        if mutant.key in known:
            kind, detail = "judged", known[mutant.key]
        else:
            kind, detail = trial(mutant)
        if kind == "invalid":
            continue
        done.append(Outcome(mutant, kind, detail))
        print(done[-1], flush=True)
    return done


@dataclass(frozen=True)
class Row:
    """How many mutants of a package were killed, survived, or had been judged equal to the original."""

    package: str
    seed: int
    mutants: int
    killed: int
    survived: int
    judged: int
    seconds: int

    @classmethod
    def of(cls, package: str, seed: int, done: Sequence[Outcome], seconds: float) -> Row:
        """Counts outcomes."""
        kinds = Counter(outcome.kind for outcome in done)
        counts = (kinds["killed"], kinds["survived"], kinds["judged"])
        return cls(package, seed, len(done), *counts, round(seconds))

    @property
    def low(self) -> bool:
        """Whether more than one of ten mutants that are not judged equal survived."""
        return self.killed < GOAL * (self.killed + self.survived)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if fewer than nine of ten mutants that are not judged equal were killed in some package."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", help="distributions; all if none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10, help="mutants of each package")
    parser.add_argument(
        "--budget", type=float, default=60, help="seconds of tests in Python that try one mutant"
    )
    parser.add_argument("--kind", choices=("python", "native", "threads"), action="append")
    given = parser.parse_args(arguments)
    if unknown := set(given.packages) - set(distributions()):
        parser.error(f"no package {', '.join(sorted(unknown))}; there are: {', '.join(distributions())}")
    known, low = judged(), []
    for name in given.packages or distributions():
        distribution = distributions()[name]
        makers = {
            "python": lambda d=distribution: of_python(d, given.seed, given.budget),
            "native": lambda d=distribution: of_native(d, given.seed, given.budget, False),
            "threads": lambda d=distribution: of_native(d, given.seed, given.budget, True),
        }
        for kind in given.kind or ("python", "native"):
            started = time.monotonic()
            prepared = makers[kind]()
            if prepared is None:
                continue
            done = outcomes(*prepared, given.count, known)
            row = Row.of(f"{name} ({kind})", given.seed, done, time.monotonic() - started)
            print(json.dumps(asdict(row)), flush=True)
            if row.low:
                low.append(row.package)
    if low:
        print(f"too many mutants survive in {', '.join(low)}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
