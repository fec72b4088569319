# SPDX-License-Identifier: Apache-2.0
"""What the nox sessions ask of pytest."""

from __future__ import annotations

import pytest

pytest.importorskip("nox")

from tools.sessions import pytest_options

MARKS = "not slow and not gpu"


@pytest.mark.parametrize("given", [[], ["-k", "foo"], ["packages/mx-io"], ["--maxfail=1"]])
def test_slow_tests_are_left_out_unless_marks_are_given(given: list[str]) -> None:
    assert pytest_options(given, MARKS) == ["-n", "2", "-m", MARKS, *given]


@pytest.mark.parametrize("given", [["-m", "slow"], ["-mslow", "packages"]])
def test_marks_given_take_the_place_of_the_default(given: list[str]) -> None:
    assert pytest_options(given, MARKS) == ["-n", "2", *given]


def test_a_number_of_processes_given_takes_the_place_of_two() -> None:
    assert pytest_options(["-n0"], MARKS) == ["-m", MARKS, "-n0"]
