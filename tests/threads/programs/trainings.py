# SPDX-License-Identifier: Apache-2.0
"""Threads that each train a network of their own, and read one network that nobody trains: as alone."""

from __future__ import annotations

import numpy as np
from threads import ROUNDS, beside

from mx_gluon import Block, Trainer, loss, nn
from mx_gluon.data import ArrayDataset, DataLoader
from mx_ndarray import autograd, nd

SEEDS = 4


def network(seed: int) -> nn.HybridSequential:
    """A small network with batch normalisation whose parameters are drawn from a seed."""
    built = nn.HybridSequential()
    built.add(
        nn.Dense(8, in_units=5, activation="tanh"), nn.BatchNorm(in_channels=8), nn.Dense(3, in_units=8)
    )
    built.initialize()
    generator = np.random.default_rng(seed)
    for name, parameter in built.collect_params().items():
        if name.endswith("weight"):
            parameter.set_data(nd.array(generator.normal(size=parameter.shape)))
    return built


def train(seed: int, optimizer: str, hybridised: bool) -> list[np.ndarray]:
    """The parameters after a few steps over batches that a loader with threads makes."""
    net = network(seed)
    if hybridised:
        net.hybridize(static_alloc=seed % 2 == 0)
    generator = np.random.default_rng(100 + seed)
    data = ArrayDataset(generator.normal(size=(14, 5)).astype("float32"), generator.integers(0, 3, 14))
    trainer = Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
    criterion = loss.SoftmaxCrossEntropyLoss()
    for _ in range(3 * ROUNDS):
        for x, y in DataLoader(data, 4, num_workers=2, thread_pool=True):  # the last batch is smaller
            with autograd.record():
                value = criterion(net(x), y)
            value.backward()
            trainer.step(len(x))
    return [parameter.data().asnumpy() for parameter in net.collect_params().values()]


def read(net: Block, data: np.ndarray, expected: np.ndarray) -> None:
    """Calls a network that other threads call at the same time, with batches of several sizes."""
    for k in range(8 * ROUNDS):
        count = 1 + k % len(data)
        np.testing.assert_allclose(
            net(nd.array(data[:count])).asnumpy(), expected[:count], rtol=1e-5, atol=1e-6
        )


if __name__ == "__main__":
    kinds = [(seed, ("sgd", "adam")[seed % 2], seed > 1) for seed in range(SEEDS)]
    alone = [train(*kind) for kind in kinds]
    shared = network(SEEDS)
    shared.hybridize()
    data = np.random.default_rng(0).normal(size=(6, 5)).astype("float32")
    expected = shared(nd.array(data)).asnumpy()

    def work(thread: int) -> None:
        for got, wanted in zip(train(*kinds[thread]), alone[thread], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        read(shared, data, expected)

    beside(work, SEEDS)
    print("done")
