# SPDX-License-Identifier: Apache-2.0
"""Which tests of a package run which of its lines."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import coverage

from tools.distributions import ROOT

from .selection import RECORD

MARKS = "not slow and not gpu and not install"
OPTIONS = ("-q", "-p", "tools.mutation.selection", "-p", "no:cacheprovider", "-m", MARKS)


@dataclass(frozen=True)
class Covering:
    """Tests by line.

    Attributes
    ----------
    seconds : dict of str to float
        How long each test took that passed, by its identifier.
    tests : dict of Path to dict of int to list of str
        Tests by file and line.
    """

    seconds: dict[str, float]
    tests: dict[Path, dict[int, list[str]]]

    def choose(self, file: Path, line: int, budget: float) -> list[str]:
        """Tests that run a line, or else all, those of the file first; quick ones first.

        What runs when a module is imported is seen by all: it was whichever test came first that imported it.

        Parameters
        ----------
        file : Path
            As it was when it was covered.
        line : int
            From 1.
        budget : float
            Seconds that they took together at most; the first is chosen in any case.
        """
        lines = self.tests.get(file, {})
        own = set(lines.get(line, ()) if _in_function(file, line) else ()) & self.seconds.keys()
        near = {name for names in lines.values() for name in names}
        wanted = own or self.seconds.keys()
        chosen: list[str] = []
        for name in sorted(wanted, key=lambda name: (name not in near, self.seconds[name], name)):
            budget -= self.seconds[name]
            if chosen and budget < 0:
                break
            chosen.append(name)
        return chosen


def cover(python: str, package: Path, tests: Path, folder: Path, root: Path = ROOT) -> Covering:
    """Runs the tests of a package once, unless `folder` has what an earlier run on the same files found.

    Parameters
    ----------
    python : str
        The interpreter that has the package.
    package : Path
        Its folder there.
    tests : Path
        Folder of its tests, below `root`.
    folder : Path
        For what is found.

    Raises
    ------
    RuntimeError
        No test passed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"coverage-{_digest(package, tests)}"
    record = data.with_suffix(".json")
    if not record.exists():
        part = folder / "part.json"
        run = (python, "-m", "coverage", "run", "--rcfile=/dev/null", f"--data-file={data}")
        pytest = ("-m", "pytest", *OPTIONS, "-n", "0", str(tests.relative_to(root)))
        env = os.environ | {RECORD: str(part), "CI": "true", "PYTHONPATH": with_root()}
        subprocess.run((*run, f"--source={package.name}", *pytest), cwd=root, env=env, check=False)
        part.rename(record)
    seconds = json.loads(record.read_text())
    if not seconds:
        raise RuntimeError(f"no test below {tests} passed")
    found = coverage.CoverageData(str(data))
    found.read()
    lines = {Path(name): found.contexts_by_lineno(name) for name in found.measured_files()}
    by_line = {
        file: {line: list(filter(None, names)) for line, names in numbered.items()}
        for file, numbered in lines.items()
    }
    return Covering(seconds, by_line)


def _in_function(file: Path, line: int) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(
        node.body[0].lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, functions)
    )


def with_root(*first: str) -> str:
    """PYTHONPATH that begins with some folders and has the repository, where the plug-in of pytest is."""
    return os.pathsep.join((*first, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))


def _digest(*folders: Path) -> str:
    text = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text.update(str(path).encode() + path.read_bytes())
    return text.hexdigest()[:12]
