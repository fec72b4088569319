# SPDX-License-Identifier: Apache-2.0
"""`mx plugins check` finds parts of training, images and commands that are wrong, and passes those that are right."""

from __future__ import annotations

import pytest

from testkit import fresh
from testkit.bad_plugins import install
from testkit.wrong_parts import RIGHT, SAID, SOURCE


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("wrong")
    install(folder, SOURCE)
    done = fresh.mx("plugins", "check", "aaa", PYTHONPATH=str(folder), MX_STRICT_PLUGINS="")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("subject", SAID)
def test_a_wrong_part_is_found(subject: str, output: str) -> None:
    failed = output.split(f"FAILED  {subject}: ")[1:]
    assert failed, output
    assert any(SAID[subject] in part.partition("\n")[2][:2000] for part in failed), failed


@pytest.mark.long
def test_right_parts_pass(output: str) -> None:
    failed = [line for line in output.splitlines() if line.startswith("FAILED")]
    assert {line.split(": ")[0].removeprefix("FAILED  ") for line in failed} == set(SAID)
    for subject in RIGHT:
        assert f"ok      {subject}: " in output
