# SPDX-License-Identifier: Apache-2.0
"""What the nox sessions ask of pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("nox")

import nox

from tools.benchmarks import scripts
from tools.distributions import distributions
from tools.sessions import DEFAULT, LONG, benchmark_folders, check_types, pytest_options

PARALLEL = ("-n", "3", "--dist", "worksteal")

SOME_TESTS = """
import pytest

def test_foo(): pass
def test_bar(): pass

@pytest.mark.long
def test_foo_long(): pass

@pytest.mark.slow
def test_foo_slow(): pass

@pytest.mark.gpu
def test_foo_on_gpu(): pass
"""


@pytest.mark.parametrize(("marks", "chosen"), [(DEFAULT, "test_foo"), (LONG, "test_foo_long")])
def test_a_choice_by_name_starts_no_slow_test(marks: str, chosen: str, tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(SOME_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: \n    slow: \n    gpu: \n")
    options = pytest_options(["-k", "foo", "-n0", "-q", "--collect-only", path.name], marks)
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if "::" in line] == [f"test_some.py::{chosen}"]


@pytest.mark.parametrize("given", [[], ["-k", "foo"], ["packages/mx-io"], ["--maxfail=1"]])
def test_slow_tests_are_left_out_unless_marks_are_given(given: list[str]) -> None:
    assert pytest_options(given, DEFAULT) == [*PARALLEL, "-m", DEFAULT, *given]


@pytest.mark.parametrize("given", [["-m", "slow"], ["-mslow", "packages"]])
def test_marks_given_take_the_place_of_the_default(given: list[str]) -> None:
    assert pytest_options(given, DEFAULT) == [*PARALLEL, *given]


class Recorder:
    """Notes what a session would run.

    Attributes
    ----------
    runs : list of tuple
        Words of each command, and the folders in its MYPYPATH.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[tuple[str, ...], list[Path]]] = []

    def install(self, *words: str) -> None:
        """Installs nothing."""

    def run(self, *words: str, env: dict[str, str]) -> None:
        """Notes a command."""
        self.runs.append((words, [Path(folder) for folder in env["MYPYPATH"].split(":")]))


def test_types_of_all_benchmarks_are_checked_where_their_modules_are_found() -> None:
    session = Recorder()
    check_types(cast(nox.Session, session))
    (first, *others) = session.runs
    assert first[0][:2] == ("mypy", "--explicit-package-bases") and {"mx_core", "tools"} <= set(first[0])
    checked = {Path(words[-1]): path for words, path in others}
    assert list(checked) == benchmark_folders()
    sources = {distribution.folder / "src" for distribution in distributions().values()}
    assert all(path[-1] == folder and set(path[:-1]) == sources for folder, path in checked.items())
    assert {script.parent for script in scripts().values()} <= set(checked)


def test_a_folder_without_python_is_no_folder_of_benchmarks(tmp_path: Path) -> None:
    for name, file in (("a", "bench_a.py"), ("b", "bench_b.cc"), ("c", "parts/run.py")):
        folder = tmp_path / "packages" / name / "benchmarks"
        (folder / file).parent.mkdir(parents=True)
        (folder / file).touch()
        (folder.parent / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (tmp_path / "packages" / "d").mkdir()
    (tmp_path / "packages" / "d" / "pyproject.toml").write_text('[project]\nname = "d"\n')
    assert [folder.parent.name for folder in benchmark_folders(tmp_path)] == ["a", "c"]


def test_a_number_of_processes_given_takes_the_place_of_two() -> None:
    assert pytest_options(["-n0"], DEFAULT) == ["--dist", "worksteal", "-m", DEFAULT, "-n0"]


def test_another_distribution_takes_the_place_of_the_default() -> None:
    given = ["--dist", "loadfile", "-k", "foo"]
    assert pytest_options(given, "slow") == ["-n", "3", "-m", "slow", *given]
