# SPDX-License-Identifier: Apache-2.0
"""Trainer: weights after steps, and resumed from states, as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import Context, cpu
from mx_gluon import Trainer, loss, nn, utils
from mx_ndarray import autograd, nd
from testkit.gluon_record import FOLDER, arrays, cases

pytestmark = pytest.mark.timeout(60)
CASES = [
    pytest.param(
        i, id=f"{case['optimizer']}-{case['contexts']}-{'-'.join(map(str, case['further'].values()))}"
    )
    for i, case in enumerate(cases("trainers"))
]


class Training:
    """The network and the trainer of a case."""

    def __init__(self, number: int) -> None:
        self.case, self.data = cases("trainers")[number], arrays(f"trainers/{number}/")
        self.contexts = [cpu(i) for i in range(self.case["contexts"])]
        self.net = small_net(self.contexts)
        for name, param in self.net.collect_params().items():
            param.set_data(nd.array(self.data["first/" + name]))
        self.trainer = Trainer(
            self.net.collect_params(),
            self.case["optimizer"],
            dict(self.case["arguments"]),
            **self.case["further"],
        )

    def step(self, steps: int) -> None:
        x, y = (utils.split_and_load(self.data[each], self.contexts) for each in "xy")
        for _ in range(steps):
            with autograd.record():
                losses = [loss.L2Loss()(self.net(a), b) for a, b in zip(x, y, strict=True)]
            for each in losses:
                each.backward()
            self.trainer.step(4)

    def check(self, when: str) -> None:
        for name, param in self.net.collect_params().items():
            for i, array in enumerate(param.list_data()):
                expected = self.data[f"{when}/{name}/{i}"]
                np.testing.assert_allclose(array.asnumpy(), expected, rtol=5e-5, atol=5e-6)

    def start_at(self, when: str) -> None:
        for name, param in self.net.collect_params().items():
            param.set_data(nd.array(self.data[f"{when}/{name}/0"]))


def small_net(contexts: list[Context]) -> Any:
    net = nn.HybridSequential(prefix="t_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="tanh", in_units=2), nn.Dense(1, in_units=3))
    net.collect_params()["t_dense1_weight"].lr_mult = 0.5
    net.collect_params()["t_dense0_bias"].wd_mult = 0.0
    net.initialize(ctx=contexts)
    return net


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("number", CASES)
def test_weights_after_steps(number: int, hybridized: bool) -> None:
    training = Training(number)
    if hybridized:
        training.net.hybridize()
    training.step(2)
    training.check("two")
    training.step(2)
    training.check("four")


@pytest.mark.parametrize("number", CASES)
def test_resumes_from_states_of_mxnet(number: int) -> None:
    training = Training(number)
    file = FOLDER / f"trainer{number}.states"
    if not file.exists():
        assert training.case["further"]["kvstore"] is None  # each context has states of its own
        return
    training.start_at("two")
    training.trainer.load_states(file)
    training.step(2)
    training.check("four")


@pytest.mark.parametrize("number", CASES)
def test_resumes_from_own_states(number: int, tmp_path: Path) -> None:
    training = Training(number)
    if training.case["further"].get("kvstore", "device") is None:
        return
    training.step(2)
    training.trainer.save_states(tmp_path / "own.states")
    resumed = Training(number)
    resumed.start_at("two")
    resumed.trainer.load_states(tmp_path / "own.states")
    resumed.step(2)
    resumed.check("four")
