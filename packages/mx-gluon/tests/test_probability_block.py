# SPDX-License-Identifier: Apache-2.0
"""Blocks that add losses of their own, and a variational autoencoder that trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import Trainer, nn
from mx_gluon import probability as mgp
from mx_gluon.probability import StochasticBlock, StochasticSequential
from mx_ndarray import autograd, nd, random
from mx_train import initializer


class Adding(StochasticBlock):
    """Doubles, and adds what it is given as losses."""

    def __init__(self, factors: list[float], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._factors = factors

    @StochasticBlock.collectLoss
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for factor in self._factors:
            self.add_loss(x * factor)
        return x * 2


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("factors", [[], [3.0], [3.0, 4.0]])
def test_losses_are_those_of_the_last_call(active: bool, factors: list[float]) -> None:
    net = Adding(factors)
    net.hybridize(active)
    assert net.losses == []
    for value in (1.0, 5.0):
        x = nd.array([value])
        x.attach_grad()
        with autograd.record():
            y = net(x)
            total = y
            for loss in net.losses:
                total = total + loss
        total.backward()
        assert y.asscalar() == 2 * value
        assert [loss.asscalar() for loss in net.losses] == [value * factor for factor in factors]
        assert x.grad.asscalar() == 2 + sum(factors)


@pytest.mark.parametrize("active", [False, True])
def test_blocks_one_after_the_other(active: bool) -> None:
    net = StochasticSequential()
    net.add(Adding([3.0]), nn.Dense(1, use_bias=False, weight_initializer="ones"), Adding([4.0, 5.0]))
    net.initialize()
    net.hybridize(active)
    assert net(nd.array([[1.0, 2.0]])).asnumpy().tolist() == [[12.0]]
    (first,), (second, third) = net.losses
    assert first.asnumpy().tolist() == [[3.0, 6.0]]
    assert (second.asscalar(), third.asscalar()) == (24.0, 30.0)
    assert len(net) == 3
    assert net[2] is not net[0]
    assert len(net[:2]) == 2
    assert net[-1](nd.ones((1,))).asscalar() == 2.0
    with pytest.raises(ArgumentError, match="there are 3 blocks, got index 3"):
        net[3]


def test_a_block_that_does_not_collect() -> None:
    class Forgetful(StochasticBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            self.add_loss(x)
            return x

    with pytest.raises(
        MXNetError, match=r"Forgetful.hybrid_forward has to be decorated with StochasticBlock"
    ):
        Forgetful()(nd.ones((1,)))


def test_losses_of_a_call_that_failed_are_dropped() -> None:
    class Failing(StochasticBlock):
        fails = True

        @StochasticBlock.collect_loss
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            self.add_loss(x)
            if self.fails:
                raise RuntimeError("stop")
            return x

    net = Failing()
    with pytest.raises(RuntimeError, match="stop"):
        net(nd.ones((1,)))
    net.fails = False
    net(nd.ones((1,)))
    assert len(net.losses) == 1


class Autoencoder(StochasticBlock):
    """Points in eight dimensions that have one factor."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.loc, self.log_scale = nn.Dense(1), nn.Dense(1, weight_initializer="zeros")
            self.decoder = nn.Dense(8)

    @StochasticBlock.collectLoss
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        q = mgp.Normal(self.loc(x), F.exp(self.log_scale(x)))
        self.add_loss(mgp.kl_divergence(q, mgp.Normal(0.0, 1.0)).sum(axis=1))
        p = mgp.Normal(self.decoder(q.sample()), 1.0)
        return -p.log_prob(x).sum(axis=1)


@pytest.mark.parametrize("active", [False, True])
def test_a_variational_autoencoder_trains(active: bool) -> None:
    """Its bound comes near to the density of the points, which is that of a normal variable."""
    random.seed(0)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=8)
    x = rng.normal(size=(512, 1)) * direction + rng.normal(size=(512, 8))
    net = Autoencoder()
    net.initialize(initializer.Xavier())
    net.hybridize(active)
    trainer = Trainer(net.collect_params(), "adam")
    points = nd.array(x)
    bounds = []
    for step in range(600):
        trainer.set_learning_rate(0.1 if step < 300 else 0.02)
        with autograd.record():
            reconstruction = net(points)
            loss = (reconstruction + net.losses[0]).mean()
        loss.backward()
        trainer.step(1)
        bounds.append(loss.asscalar())
    known = mgp.MultivariateNormal(nd.zeros((8,)), cov=nd.array(np.outer(direction, direction) + np.eye(8)))
    best = -known.log_prob(points).mean().asscalar()
    assert bounds[0] > best + 1
    assert best - 0.1 < np.mean(bounds[-50:]) < best + 0.1
    assert net.losses[0].shape == (512,)
