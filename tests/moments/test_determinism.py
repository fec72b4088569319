# SPDX-License-Identifier: Apache-2.0
"""A seed gives the same bits, whatever engine and however many workers compute them, in any process."""

from __future__ import annotations

import pytest

from testkit.fresh import ENGINES, run
from testkit.trained_networks import DIGEST, NAMES, NETWORK

pytestmark = pytest.mark.long

TRAINING = NETWORK + """
mx.random.seed(7)
np.random.seed(7)
values = np.random.RandomState(3).uniform(-1, 1, (32, 3, 8, 8)).astype(np.float32)
data = mx.io.NDArrayIter(values, np.arange(32) % 4, batch_size=8, shuffle=True)
module = mx.mod.Module(net)
module.fit(data, num_epoch=3, optimizer="adam", initializer=mx.init.Uniform(0.1))
""" + DIGEST  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("net", NAMES)
@pytest.mark.parametrize("settings", [ENGINES[::4], pytest.param(ENGINES, marks=pytest.mark.slow)], ids=len)
def test_a_training_gives_the_same_bits(net: str, settings: list[dict[str, str]]) -> None:
    results = [run(TRAINING, net, **chosen) for chosen in settings]
    assert all(done.returncode == 0 for done in results), results[0].stderr
    assert len({done.stdout for done in results}) == 1
