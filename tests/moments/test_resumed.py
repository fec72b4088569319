# SPDX-License-Identifier: Apache-2.0
"""A training that is killed at any moment and goes on from its last checkpoint ends with the bits of one that was not."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testkit.fresh import counted
from testkit.trained_networks import DIGEST, NAMES, NETWORK

pytestmark = pytest.mark.long

EPOCHS = 5

TRAINING = NETWORK + f"""
import os, re
values = np.random.RandomState(3).uniform(-1, 1, (64, 3, 8, 8)).astype(np.float32)
data = mx.io.NDArrayIter(values, np.arange(64) % 4, batch_size=8)
def epoch_of(name):
    found = re.fullmatch(r"model-(\\d+)[.]states", name)  # written behind the parameters
    return int(found[1]) if found else 0
done = max(map(epoch_of, os.listdir()), default=0)
mx.random.seed(7)
np.random.seed(7)
module = mx.mod.Module.load("model", done, load_optimizer_states=True) if done else mx.mod.Module(net)
for epoch in range(done, {EPOCHS}):
    mx.random.seed(epoch)
    module.fit(data, begin_epoch=epoch, num_epoch=epoch + 1, optimizer="adam", initializer=mx.init.Uniform(0.1))
    module.save_checkpoint("model", epoch + 1, save_optimizer_states=True)
""" + DIGEST  # fmt: skip


def start(net: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TRAINING, net]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def digest(net: str, folder: Path) -> str:
    training = start(net, folder)
    output, errors = training.communicate(timeout=200)
    assert training.returncode == 0, errors
    return output


def kill_after(checkpoint: Path, seconds: float, training: subprocess.Popen[str]) -> None:
    """Kills a training some time after it has begun to write a checkpoint."""
    while training.poll() is None and not checkpoint.exists():
        time.sleep(0.002)
    time.sleep(seconds)
    training.send_signal(signal.SIGKILL)
    training.communicate()


@pytest.mark.parametrize("kills", counted(1, 20))
@pytest.mark.parametrize("net", NAMES)
def test_the_bits_are_the_same(net: str, kills: int, tmp_path: Path) -> None:
    """Killed in each epoch in turn, most often within it, sometimes while its checkpoint is written."""
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = digest(net, whole)
    first, last = ((whole / f"model-{epoch:04}.params").stat().st_mtime for epoch in (1, EPOCHS))
    rng, interrupted = random.Random(kills), 0
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        epoch = 2 + number % (EPOCHS - 2)
        kill_after(
            folder / f"model-{epoch:04}.params", rng.uniform(0, last - first) / EPOCHS, start(net, folder)
        )
        interrupted += not (folder / f"model-{EPOCHS:04}.states").exists()
        assert digest(net, folder) == expected, (number, sorted(path.name for path in folder.iterdir()))
    assert interrupted > kills // 2, "most trainings had ended before they were killed"
