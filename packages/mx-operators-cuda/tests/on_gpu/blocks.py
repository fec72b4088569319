# SPDX-License-Identifier: Apache-2.0
"""Gluon blocks and a trainer on a GPU, real or fake, against the same on the CPU; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_gluon import Trainer, loss, nn
from mx_ndarray import autograd, nd


def network() -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(4, 3, in_channels=2), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.MaxPool2D(),
        nn.Flatten(), nn.Dense(6, activation="tanh", in_units=36), nn.LayerNorm(in_channels=6), nn.Dense(3, in_units=6),
    )  # fmt: skip
    return net


def trained(ctx: Any, hybrid: bool) -> dict[str, np.ndarray]:
    """Losses of three steps, then the parameters."""
    net = network()
    net.initialize(ctx=ctx)
    rng = np.random.default_rng(5)
    for name, parameter in net.collect_params().items():
        values = rng.normal(size=parameter.shape) * 0.4
        positive = name.endswith(("var", "gamma"))
        parameter.set_data(nd.array(np.abs(values) + 0.7 if positive else values, ctx=ctx))
    if hybrid:
        net.hybridize()
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3})
    criterion = loss.SoftmaxCrossEntropyLoss()
    found = {}
    x, label = nd.array(rng.normal(size=(5, 2, 8, 8)), ctx=ctx), nd.array(np.arange(5) % 3, ctx=ctx)
    for step in range(3):
        with autograd.record():
            losses = criterion(net(x), label)
        losses.backward()
        trainer.step(5)
        found[f"loss {step}"] = losses.asnumpy()
    return {**found, **{str(i): p.data().asnumpy() for i, p in enumerate(net.collect_params().values())}}


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_block_that_is_trained(hybrid: bool) -> None:
    found, wanted = trained(gpu(0), hybrid), trained(cpu(), hybrid)
    for name, value in wanted.items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(found[name] / scale, value / scale, atol=1e-3, err_msg=name)
