# SPDX-License-Identifier: Apache-2.0
"""What the nox sessions ask of pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nox")

from tools.sessions import pytest_options

MARKS = "not slow and not gpu"

SOME_TESTS = """
import pytest

def test_foo(): pass
def test_bar(): pass

@pytest.mark.slow
def test_foo_slow(): pass

@pytest.mark.gpu
def test_foo_on_gpu(): pass
"""


def test_a_choice_by_name_starts_no_slow_test(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(SOME_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: \n    gpu: \n")
    options = pytest_options(["-k", "foo", "-n0", "-q", "--collect-only", path.name], MARKS)
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if "::" in line] == ["test_some.py::test_foo"]


@pytest.mark.parametrize("given", [[], ["-k", "foo"], ["packages/mx-io"], ["--maxfail=1"]])
def test_slow_tests_are_left_out_unless_marks_are_given(given: list[str]) -> None:
    assert pytest_options(given, MARKS) == ["-n", "2", "-m", MARKS, *given]


@pytest.mark.parametrize("given", [["-m", "slow"], ["-mslow", "packages"]])
def test_marks_given_take_the_place_of_the_default(given: list[str]) -> None:
    assert pytest_options(given, MARKS) == ["-n", "2", *given]


def test_a_number_of_processes_given_takes_the_place_of_two() -> None:
    assert pytest_options(["-n0"], MARKS) == ["-m", MARKS, "-n0"]
