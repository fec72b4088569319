# SPDX-License-Identifier: Apache-2.0
"""Mutants of C++ sources, drawn by a seed from a small table, and the C++ tests that run on them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import native_tests
from tools.distributions import Distribution

from .mutant import Mutant


@dataclass(frozen=True)
class Change:
    """One kind of change.

    Attributes
    ----------
    name : str
        Of the kind.
    pattern, replacement : str
        What is found within one line, and what comes in its place.
    threads : bool
        Only the thread sanitizer sees it.
    """

    name: str
    pattern: str
    replacement: str
    threads: bool = False


CHANGES = (
    Change("less_to_less_equal", r" < ", " <= "),
    Change("less_equal_to_less", r" <= ", " < "),
    Change("greater_to_greater_equal", r" > ", " >= "),
    Change("greater_equal_to_greater", r" >= ", " > "),
    Change("equal_to_unequal", r" == ", " != "),
    Change("unequal_to_equal", r" != ", " == "),
    Change("and_to_or", r" && ", " || "),
    Change("or_to_and", r" \|\| ", " && "),
    Change("add_to_subtract", r"(?<=[\w)\]]) \+ (?=\w)", " - "),
    Change("subtract_to_add", r"(?<=[\w)\]]) - (?=\w)", " + "),
    Change("drop_one_more", r" \+ 1\b", ""),
    Change("drop_one_less", r" - 1\b", ""),
    Change("increment_to_decrement", r"\+\+(?=\w)", "--"),
    Change("decrement_to_increment", r"--(?=\w)", "++"),
    Change("true_to_false", r"\breturn true;", "return false;"),
    Change("false_to_true", r"\breturn false;", "return true;"),
    Change("negate_condition", r"\bif \((?!!)(?=[^;]*\) (?:return|break|continue)\b)", "if (!"),
    Change("drop_notify", r"\b\w+(?:\.|->)notify_(?:one|all)\(\);", ";"),
    Change("drop_lock", r"\bstd::(?:lock_guard|scoped_lock)\b[^;]*;", ";", threads=True),
    Change("drop_fence", r"\bstd::atomic_thread_fence\([^;]*;", ";", threads=True),
    Change("relax_order", r"\bmemory_order_(?:acquire|release|acq_rel|seq_cst)\b", "memory_order_relaxed", True),
)  # fmt: skip

_LEFT_OUT = ("bindings", "pybind", "python", "native_tests", "benchmark")
_NO_CODE = re.compile(r"^\s*(?://|#|\*|static_assert\b|template\b)")
_AFTER = re.compile(r"//.*$|\"(?:[^\"\\]|\\.)*\"")


def mutants(files: Sequence[Path], seed: str, threads: bool) -> Iterator[Mutant]:
    """Different mutants in random order, each with one change in one line outside comments and texts.

    Parameters
    ----------
    threads : bool
        Those that the thread sanitizer is needed for, or the others.
    """
    rng = random.Random(seed)
    found: list[tuple[Path, int, Change, int, int]] = []
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if _NO_CODE.match(line):
                continue
            code = _AFTER.sub(lambda text: " " * len(text[0]), line)
            found += [
                (file, number, change, *match.span())
                for change in CHANGES
                if change.threads == threads
                for match in re.finditer(change.pattern, code)
            ]
    rng.shuffle(found)
    for file, number, change, start, end in found:
        source = file.read_text()
        lines = source.splitlines(keepends=True)
        line = lines[number - 1]
        lines[number - 1] = line[:start] + change.replacement + line[end:]
        yield Mutant.of(file, source, "".join(lines), number, change.name)


def sources(distribution: Distribution) -> list[Path]:
    """What the C++ tests of a package test: not what needs an interpreter, nor what tests and benchmarks share."""
    folders = (distribution.folder / "csrc", distribution.folder / "src")
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".cc", ".h", ".hpp") and not path.name.startswith(_LEFT_OUT)
    )


class Tree:
    """A copy of a package's C++ sources and tests, built.

    Parameters
    ----------
    distribution : Distribution
        Whose.
    folder : Path
        For the copy and what is built; builds are taken up again.
    python : str
        See `native_tests.run`.
    options : str
        Of CMake.
    programs : collection of str
        The tests that are built and run; none means all.

    Attributes
    ----------
    seconds : float
        What the tests took on the unchanged sources.

    Raises
    ------
    CalledProcessError
        The unchanged sources do not build, or their tests fail.

    Notes
    -----
    Threads: one at a time.
    """

    def __init__(
        self,
        distribution: Distribution,
        folder: Path,
        python: str,
        *options: str,
        programs: Collection[str] = (),
    ) -> None:
        self.package, self.source, self.out = distribution.folder, folder / "source", folder / "out"
        kept = set()
        for path in sorted(self.package.rglob("*")):
            if path.is_file() and path.suffix in (".c", ".cc", ".cpp", ".h", ".hpp", ".txt", ".cmake"):
                kept.add(self.source / path.relative_to(self.package))
                self._write(self.source / path.relative_to(self.package), path.read_text())
        for path in self.source.rglob("*"):
            if path.is_file() and path not in kept:
                path.unlink()
        include = self.source / "src" / "mx_core" / "include"
        more = (f"-DMX_CORE_INCLUDE={include}",) if include.exists() else ()
        native_tests.configure(self.source / "tests" / "cpp", self.out, python, *options, *more)
        native_tests.build(self.out, *sorted(set(programs)))
        started = time.monotonic()
        native_tests.test(self.out, *sorted(set(programs)))
        self.seconds = time.monotonic() - started

    @staticmethod
    def _write(path: Path, text: str) -> None:
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, file: Path, source: str, limit: float, program: str | None = None) -> tuple[str, str]:
        """Changes a file, builds and tests, and changes it back.

        Parameters
        ----------
        file : Path
            Of the package.
        source : str
            What it contains meanwhile.
        limit : float
            Seconds for the tests.
        program : str, optional
            The only test program that is built and run.

        Returns
        -------
        kind, detail : str
            As in `Outcome`, or `invalid` if it does not compile.
        """
        place = self.source / file.relative_to(self.package)
        original = place.read_text()
        place.write_text(source)
        try:
            return native_tests.judge(self.out, limit, program)
        finally:
            place.write_text(original)
