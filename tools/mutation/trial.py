# SPDX-License-Identifier: Apache-2.0
"""Tests of a package run on a copy of it that has one file changed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import guarded
from tools.distributions import ROOT

from .covering import OPTIONS, with_root
from .mutant import Mutant
from .selection import CHOSEN

_FAILED = re.compile(r"^(?:FAILED|ERROR) (.*)$", re.MULTILINE)


def installed(name: str) -> Path | None:
    """Folder of a distribution's package where this interpreter imports it from; None if it cannot."""
    found = importlib.util.find_spec(name.replace("-", "_"))
    return None if found is None or found.origin is None else Path(found.origin).parent


class Copy:
    """A copy of an installed package that programs import in its place.

    Parameters
    ----------
    package : Path
        Folder of the installed package.
    folder : Path
        Where the copy goes; what is there is removed.
    root : Path
        What the names of tests are relative to.

    Notes
    -----
    Threads: one at a time.
    """

    def __init__(self, package: Path, folder: Path, root: Path = ROOT) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.package, self.folder, self.root = package, folder, root
        shutil.copytree(package, folder / "parts" / package.name, symlinks=True)
        self._changes = 0
        self._unfit: set[str] = set()

    def run(self, python: str, mutant: Mutant, tests: Sequence[str], limit: float) -> tuple[str, str]:
        """Changes the file, runs the tests until one fails, and changes it back.

        A test that fails in this order without the change, too, is left out, also of later runs.

        Parameters
        ----------
        limit : float
            Seconds, after which the mutant counts as killed.

        Returns
        -------
        kind, detail : str
            As in `Outcome`.
        """
        left = [name for name in tests if name not in self._unfit]
        while left:
            with self.changed(mutant):
                kind, detail = self._test(python, left, limit)
            last = _place_of(detail, left)
            if last is None or self._test(python, left[: last + 1], limit)[0] == "survived":
                return kind, detail
            self._unfit.update((left[last], *self._failing(python, left, limit)))
            left = [name for name in left if name not in self._unfit]
        return "survived", "every test of it fails in this order without the change, too"

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The copy has the change inside of the block."""
        place = self.folder / "parts" / self.package.name / mutant.file.relative_to(self.package)
        original = place.read_text()
        self._write(place, mutant.source)
        try:
            yield
        finally:
            self._write(place, original)

    def _write(self, place: Path, source: str) -> None:
        place.write_text(source)
        self._changes += 1  # compiled files are told apart by whole seconds and size
        os.utime(place, (0, self._changes))

    def _test(self, python: str, tests: Sequence[str], limit: float) -> tuple[str, str]:
        code, output = self._pytest(python, tests, limit, "-x")
        if code is None:
            return "killed", f"no end within {limit:.0f} s"
        if code == 0:
            return "survived", f"{len(tests)} tests passed"
        failed = _FAILED.search(output)
        return "killed", failed[1][:300] if failed else f"pytest ended with {code}"

    def _failing(self, python: str, tests: Sequence[str], limit: float) -> list[str]:
        _, output = self._pytest(python, tests, limit)
        places = [_place_of(text, tests) for text in _FAILED.findall(output)]
        return [tests[place] for place in places if place is not None]

    def _pytest(
        self, python: str, tests: Sequence[str], limit: float, *options: str
    ) -> tuple[int | None, str]:
        chosen = self.folder / "tests.json"
        chosen.write_text(json.dumps(list(tests)))
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        paths = with_root(str(self.folder / "parts"))
        env = os.environ | {CHOSEN: str(chosen), "PYTHONPATH": paths, "TMPDIR": str(scratch), "CI": "true"}
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        command = [python, "-m", "pytest", *OPTIONS, *options, "-n", "0", "--tb=no", "--no-header", *files]
        code, output = guarded.run(command, limit, self.root, env)
        shutil.rmtree(scratch, ignore_errors=True)
        return code, output


def _place_of(detail: str, tests: Sequence[str]) -> int | None:
    """Which of the tests failed, if one did."""
    named = [name for name in tests if detail == name or detail.startswith(f"{name} - ")]
    return tests.index(max(named, key=len)) if named else None
