# SPDX-License-Identifier: Apache-2.0
"""AlexNet.

Source: Krizhevsky, One Weird Trick for Parallelizing Convolutional Neural Networks, 2014.
"""

from __future__ import annotations

from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Network):
    """Five convolutions and three dense layers, for images (3, 224, 224).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    classes : int
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(64, 11, 4, 2, activation="relu"), nn.MaxPool2D(3, 2),
                    nn.Conv2D(192, 5, padding=2, activation="relu"), nn.MaxPool2D(3, 2),
                    nn.Conv2D(384, 3, padding=1, activation="relu"), nn.Conv2D(256, 3, padding=1, activation="relu"),
                    nn.Conv2D(256, 3, padding=1, activation="relu"), nn.MaxPool2D(3, 2), nn.Flatten(),
                    nn.Dense(4096, activation="relu"), nn.Dropout(0.5),
                    nn.Dense(4096, activation="relu"), nn.Dropout(0.5),
                )  # fmt: skip
            self.output = nn.Dense(classes)


def alexnet(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> AlexNet:
    """AlexNet; arguments as of `get_model`."""
    return filled(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
