# SPDX-License-Identifier: Apache-2.0
"""Layers that were cast compute in their type, with gradients, what they compute in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_gluon import Trainer, contrib, loss, nn, rnn
from mx_ndarray import NDArray, autograd, nd
from mx_ndarray import random as mx_random

RNG = np.random.default_rng(0)
IMAGE, SIGNAL, ROWS, STEPS = (2, 4, 6, 6), (2, 4, 6), (2, 4), (5, 2, 4)
LAYERS: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
    (lambda: nn.Dense(3, activation="tanh"), SIGNAL),
    (lambda: nn.Conv2D(4, 3, groups=2), IMAGE),
    (lambda: nn.Conv1D(3, 2), SIGNAL),
    (lambda: nn.Conv2DTranspose(3, 3, strides=2), IMAGE),
    (lambda: nn.BatchNorm(), IMAGE),
    (lambda: nn.BatchNorm(axis=-1), ROWS),
    (lambda: nn.BatchNormReLU(), IMAGE),
    (lambda: contrib.nn.SyncBatchNorm(num_devices=1), IMAGE),
    (lambda: nn.LayerNorm(), SIGNAL),
    (lambda: nn.GroupNorm(2), IMAGE),
    (lambda: nn.InstanceNorm(), IMAGE),
    (lambda: nn.PReLU(), ROWS),
    (lambda: nn.GELU(), ROWS),
    (lambda: nn.Swish(), ROWS),
    (lambda: nn.AvgPool2D(), IMAGE),
    (lambda: nn.GlobalMaxPool2D(), IMAGE),
    (lambda: nn.ReflectionPad2D(1), IMAGE),
    (lambda: contrib.nn.PixelShuffle2D(2), IMAGE),
    (lambda: rnn.LSTM(3, 2, bidirectional=True), STEPS),
    (lambda: rnn.GRU(3, layout="NTC"), STEPS),
]


def computed(layer: Any, x: NDArray) -> list[Any]:
    """Output, gradient of the input, gradients of the parameters, in float32."""
    x.attach_grad()
    with autograd.record():
        out = layer(x)
        total = (out * out).sum()
    total.backward()
    assert out.dtype == x.dtype
    learned = [param.grad() for param in layer.collect_params().values() if param.grad_req != "null"]
    return [each.astype("float32").asnumpy() for each in (out, x.grad, *learned)]


@pytest.mark.parametrize(("make", "shape"), LAYERS, ids=[type(make()).__name__ for make, _ in LAYERS])
def test_layers(make: Any, shape: tuple[int, ...]) -> None:
    x = nd.array(np.random.default_rng(0).normal(size=shape))  # the same whichever tests run
    layer = make()
    layer.initialize("normal")
    expected = computed(layer, x.copy())
    values = [(param, param.data().copy()) for param in layer.collect_params().values()]
    for dtype, tolerance in (("float16", 0.02), ("bfloat16", 0.12), ("float64", 1e-4)):
        for hybrid in (False, True):
            layer.cast(dtype)
            for param, value in values:
                param.set_data(value)
            layer.hybridize(hybrid)
            for found, known in zip(computed(layer, x.astype(dtype)), expected, strict=True):
                np.testing.assert_allclose(found, known, atol=tolerance * max(1.0, abs(known).max()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_in_16_bits(dtype: str, optimizer: str) -> None:
    """With float32 copies of the weights, it ends where that of float32 does."""
    mx_random.seed(0)
    x, labels = RNG.normal(size=(24, 1, 8, 8)), nd.array(np.arange(24) % 3)
    x[np.arange(24), 0, 0, np.arange(24) % 3] += 4
    found = {}
    start: dict[str, NDArray] = {}
    for kind in ("float32", dtype):
        net = nn.HybridSequential(prefix="n_")
        with net.name_scope():
            net.add(nn.Conv2D(6, 3, in_channels=1), nn.BatchNorm(in_channels=6), nn.Dense(3, in_units=216))
        net.initialize("xavier")
        for name, param in net.collect_params().items():
            param.set_data(start.setdefault(name, param.data().copy()))
        net.cast(kind)
        net.hybridize()
        trainer = Trainer(net.collect_params(), optimizer, {"learning_rate": 0.02, "multi_precision": True})
        for _ in range(12):
            with autograd.record():
                losses = loss.SoftmaxCrossEntropyLoss()(net(nd.array(x, dtype=kind)), labels.astype(kind))
            losses.backward()
            trainer.step(24)
        found[kind] = losses.astype("float32").mean().asscalar()
    assert found["float32"] < 0.8 and abs(found[dtype] - found["float32"]) < 0.05
