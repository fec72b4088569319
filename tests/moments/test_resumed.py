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


def digest(net: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, net],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kills", counted(1, 20))
@pytest.mark.parametrize("net", NAMES)
def test_the_bits_are_the_same(net: str, kills: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    started = time.monotonic()
    expected = digest(net, whole)
    longest, rng = time.monotonic() - started, random.Random(kills)
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed = subprocess.Popen(
            [sys.executable, "-c", TRAINING, net],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.3, 1) * longest)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert digest(net, folder) == expected, (number, sorted(path.name for path in folder.iterdir()))
