# SPDX-License-Identifier: Apache-2.0
"""The networks as blocks of Gluon, for mx and for MXNet 1.9.1, whose names are the same. Python 3.8."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from training.shapes import HEADS, HIDDEN, LAYERS, Case

if TYPE_CHECKING:
    from types import ModuleType


def network(name: str, case: Case, mx: ModuleType) -> Any:
    """An uninitialised HybridBlock of the data."""
    nn = mx.gluon.nn

    def mlp() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(case.classes))
        return net

    def lenet() -> Any:
        net = nn.HybridSequential()
        net.add(
            nn.Conv2D(20, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="tanh"),
            nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="tanh"), nn.Dense(case.classes),
        )  # fmt: skip
        return net

    def resnet() -> Any:
        net = nn.HybridSequential()
        net.add(
            nn.Conv2D(64, 7, 2, 3, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(3, 2, 1),
        )
        channels = 64
        for stage, width in enumerate((64, 128, 256, 512)):
            for unit in range(2):
                stride = 2 if stage > 0 and unit == 0 else 1
                net.add(Residual(width, stride, width != channels))
                channels = width
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(case.classes))
        return net

    class Residual(mx.gluon.HybridBlock):  # type: ignore[name-defined]
        def __init__(self, channels: int, stride: int, projected: bool) -> None:
            super().__init__()
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(
                    nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                    nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm(),
                )  # fmt: skip
                self.shortcut: Any = None
                if projected:
                    self.shortcut = nn.HybridSequential()
                    self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))

    class Encoder(mx.gluon.HybridBlock):  # type: ignore[name-defined]
        """A layer of a Transformer's encoder, normalised before each part."""

        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.norms = nn.HybridSequential()
                self.norms.add(nn.LayerNorm(in_channels=HIDDEN), nn.LayerNorm(in_channels=HIDDEN))
                self.query_key_value = nn.Dense(3 * HIDDEN, flatten=False)
                self.mixed = nn.Dense(HIDDEN, flatten=False)
                self.feed = nn.HybridSequential()
                self.feed.add(
                    nn.Dense(4 * HIDDEN, flatten=False, activation="relu"), nn.Dense(HIDDEN, flatten=False)
                )

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            def heads(part: Any) -> Any:
                split = F.reshape(part, shape=(0, 0, HEADS, -1))
                return F.reshape(F.transpose(split, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

            parts = F.split(self.query_key_value(self.norms[0](x)), num_outputs=3, axis=2)
            query, key, value = map(heads, parts)
            scores = F.batch_dot(query, key, transpose_b=True) / math.sqrt(HIDDEN / HEADS)
            mixed = F.reshape(F.batch_dot(F.softmax(scores), value), shape=(-4, -1, HEADS, 0, 0))
            x = x + self.mixed(F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3)))
            return x + self.feed(self.norms[1](x))

    def transformer() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Embedding(case.words, HIDDEN))
        for _ in range(LAYERS):
            net.add(Encoder())
        net.add(nn.Dense(case.classes, flatten=False))
        return net

    def lstm() -> Any:
        net = nn.HybridSequential()
        net.add(
            nn.Embedding(case.words, HIDDEN),
            mx.gluon.rnn.LSTM(HIDDEN, LAYERS),
            nn.Dense(case.classes, flatten=False),
        )
        return net

    made = {"MLP": mlp, "LeNet": lenet, "ResNet-18": resnet, "Transformer": transformer, "LSTM": lstm}
    return made[name]()
