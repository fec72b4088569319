# SPDX-License-Identifier: Apache-2.0
"""A package's extension with one source changed, and the Python tests that run on it."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.distributions import ROOT

from .mutant import Mutant
from .trial import Copy

_WORD = re.compile("[a-z0-9]+")
_BUILT = shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__", "benchmarks", "tests")


class Extension(Copy):
    """A copy of an installed package whose extension is built from a copy of its sources.

    Parameters
    ----------
    sources : Path
        The distribution's folder, which has a `setup.py`.
    package : Path
        Folder of the installed package.
    folder : Path
        Where the copies go; the package's is made anew, objects that are built are kept.
    python : str
        The interpreter that builds.
    root : Path
        What the names of tests are relative to.

    Raises
    ------
    CalledProcessError
        The unchanged sources do not build.

    Notes
    -----
    Threads: one at a time.
    """

    def __init__(self, sources: Path, package: Path, folder: Path, python: str, root: Path = ROOT) -> None:
        super().__init__(package, folder / "copy", root)
        self._sources, self._python = sources, python
        self._tree, self._objects = folder / "sources", folder / "objects"
        self._parts = self.folder / "parts"
        shutil.rmtree(self._tree, ignore_errors=True)
        shutil.copytree(sources, self._tree, ignore=_BUILT)  # keeps the times by which objects are up to date
        self._build()
        libraries = [path for path in (self._parts / package.name).glob("*.so") if path.is_file()]
        self._unchanged = {path: path.read_bytes() for path in libraries}

    def run(self, python: str, mutant: Mutant, tests: Sequence[str], limit: float) -> tuple[str, str]:
        """As `Copy.run`, or `invalid` if the extension does not build."""
        try:
            return super().run(python, mutant, tests, limit)
        except subprocess.CalledProcessError as failed:
            return "invalid", f"{failed.stdout}"[-2000:]

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The extension has the change inside of the block."""
        place = self._tree / mutant.file.relative_to(self._sources)
        original = place.read_text()
        place.write_text(mutant.source)
        try:
            self._build()
            yield
        finally:
            place.write_text(original)
            for library, content in self._unchanged.items():
                library.write_bytes(content)

    def _build(self) -> None:
        folders = ("--build-lib", str(self._parts), "--build-temp", str(self._objects))
        command = (self._python, "setup.py", "-q", "build_ext", *folders)
        subprocess.run(command, cwd=self._tree, capture_output=True, text=True, check=True)


def near_first(file: Path, seconds: dict[str, float], budget: float) -> list[str]:
    """Tests whose names share most words with a source's path first, quick ones before slow ones.

    Nothing says which tests run a line of an extension.

    Parameters
    ----------
    file : Path
        Relative to the distribution.
    seconds : dict of str to float
        How long each test takes, by its identifier.
    budget : float
        Seconds that they take together at most; the first is chosen in any case.
    """
    own = set(_WORD.findall(str(file.with_suffix("")).lower())) - {"csrc", "src"}

    def far(name: str) -> tuple[int, float, str]:
        place = name.partition("/tests/")[2] or name
        return -len(own & set(_WORD.findall(place.lower()))), seconds[name], name

    chosen: list[str] = []
    for name in sorted(seconds, key=far):
        budget -= seconds[name]
        if chosen and budget < 0:
            break
        chosen.append(name)
    return chosen
