# SPDX-License-Identifier: Apache-2.0
"""A training with checkpoints that is killed at any moment has the loss curve of one that was not, bit for bit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from testkit.fresh import counted
from testkit.resumed_programs import PROGRAMS

pytestmark = pytest.mark.long

#: a program -> the folder and the lines of its whole training
Trained = Callable[[str], tuple[Path, list[str]]]

#: lines of a whole training: one per batch, and the digest
LINES = 4 * 5 + 1


def start(program: str, folder: Path, period: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAMS[program], str(folder), str(period)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def whole(program: str, folder: Path) -> list[str]:
    """The lines of a training that nobody kills."""
    training = start(program, folder, 1)
    output, errors = training.communicate(timeout=100)
    assert training.returncode == 0, errors
    return output.splitlines()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The folder and the lines of a program's whole training, which is run once."""

    @cache
    def train(program: str) -> tuple[Path, list[str]]:
        folder = tmp_path_factory.mktemp("whole")
        return folder, whole(program, folder)

    return train


def killed(program: str, folder: Path, period: int, lines: int, seconds: float) -> list[str]:
    """The lines of a training that is killed some time after it has printed some."""
    training = start(program, folder, period)
    assert training.stdout is not None
    found = []
    for line in training.stdout:
        found.append(line)
        if len(found) == lines:
            break
    time.sleep(seconds)
    training.send_signal(signal.SIGKILL)
    rest, errors = training.communicate()
    assert training.returncode in (0, -signal.SIGKILL), errors
    text = "".join(found) + rest
    return text[: text.rfind("\n") + 1].splitlines()


def curve(lines: list[str]) -> dict[str, str]:
    """Epoch and batch -> loss."""
    return dict(line.rsplit(" ", 1) for line in lines)


@pytest.mark.parametrize("kills", counted(2, 20))
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_loss_curve_is_the_same(program: str, kills: int, tmp_path: Path, trained: Trained) -> None:
    rng = random.Random(f"{program} {kills}")
    _, expected = trained(program)
    assert len(expected) == LINES
    period, folder, interrupted, runs = 1, tmp_path / "0", 0, 0
    while interrupted < kills:
        lines = killed(program, folder, period, rng.randint(1, 9), rng.uniform(0, 0.01))
        assert curve(lines).items() <= curve(expected).items(), (folder, period, lines, expected)
        interrupted += lines[-1:] != expected[-1:]
        runs += 1
        if lines[-1:] == expected[-1:]:
            period, folder = rng.choice((1, 1, 2, 3, 100)), tmp_path / str(runs)
        assert runs < 6 * kills
    assert whole(program, folder)[-1] == expected[-1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_training_that_is_over_ends_again_as_it_ended(program: str, trained: Trained) -> None:
    folder, expected = trained(program)
    assert whole(program, folder) == expected[-1:]
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoint-0000000019.params", "checkpoint-0000000020.params",
    ]  # fmt: skip
