# SPDX-License-Identifier: Apache-2.0
"""The networks as modules of PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from training.shapes import HEADS, HIDDEN, LAYERS, Case


class Residual(nn.Module):
    """Two convolutions and what passes them by."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if inputs != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Any) -> Any:
        """The sum of both."""
        return torch.relu(self.body(x) + self.shortcut(x))


class Encoder(nn.Module):
    """A layer of a Transformer's encoder, normalised before each part."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)])
        self.query_key_value, self.mixed = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.feed = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.ReLU(), nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, x: Any) -> Any:
        """Values of every position."""
        parts = self.query_key_value(self.norms[0](x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.mixed(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Recurrent(nn.Module):
    """Layers of LSTM, without their last states."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(HIDDEN, HIDDEN, LAYERS)

    def forward(self, x: Any) -> Any:
        """Outputs of every step."""
        return self.layers(x)[0]


def network(name: str, case: Case) -> nn.Module:
    """The network of the data."""
    if name == "MLP":
        return nn.Sequential(
            nn.Linear(case.data[1], 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, case.classes),
        )
    if name == "LeNet":
        return nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, case.classes),
        )  # fmt: skip
    if name == "ResNet-18":
        widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
        pairs = zip(widths, widths[1:])
        units = [Residual(before, width, 1 if before == width else 2) for before, width in pairs]
        head = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, case.classes))
        return nn.Sequential(*head, *units, *tail)
    within = [Recurrent()] if name == "LSTM" else [Encoder() for _ in range(LAYERS)]
    return nn.Sequential(nn.Embedding(case.words, HIDDEN), *within, nn.Linear(HIDDEN, case.classes))
