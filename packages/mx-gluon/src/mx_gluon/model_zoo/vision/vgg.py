# SPDX-License-Identifier: Apache-2.0
"""VGG.

Source: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_gluon import nn
from mx_gluon.model_zoo.vision.network import Network, Root, filled
from mx_train.initializer import Xavier

__all__ = [
    "VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

#: layers with weights -> convolutions before each pooling
_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_FILTERS = (64, 128, 256, 512, 512)


class VGG(Network):
    """Convolutions of 3 by 3 with poolings between, and three dense layers.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layers : sequence of int
        Convolutions before each pooling.
    filters : sequence of int
        Their channels.
    classes : int
    batch_norm : bool
        Normalise after each convolution.

    Raises
    ------
    ArgumentError  there are not as many `filters` as `layers`
    """

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(layers) != len(filters):
            raise ArgumentError(
                f"[VGG] filters: expected {len(layers)} numbers, as many as layers, got {filters}"
            )
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(layers, filters, strict=True):
                for _ in range(count):
                    self.features.add(_convolution(channels))
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(
                    nn.Dense(4096, activation="relu", weight_initializer="normal"), nn.Dropout(rate=0.5)
                )
            self.output = nn.Dense(classes, weight_initializer="normal")


def _convolution(channels: int) -> nn.Conv2D:
    spread = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
    return nn.Conv2D(channels, kernel_size=3, padding=1, weight_initializer=spread)


def get_vgg(
    num_layers: int, pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> VGG:
    """VGG of 11, 13, 16 or 19 layers; other arguments as of `get_model`, and `batch_norm`.

    Raises
    ------
    ArgumentError  another number
    """
    if num_layers not in _LAYERS:
        raise ArgumentError(f"[get_vgg] num_layers: expected one of {sorted(_LAYERS)}, got {num_layers}")
    net = VGG(_LAYERS[num_layers], _FILTERS, **kwargs)
    suffix = "_bn" if kwargs.get("batch_norm") else ""
    return filled(net, f"vgg{num_layers}{suffix}", pretrained, ctx, root)


def vgg11(**kwargs: Any) -> VGG:
    """VGG of 11 layers."""
    return get_vgg(11, **kwargs)


def vgg13(**kwargs: Any) -> VGG:
    """VGG of 13 layers."""
    return get_vgg(13, **kwargs)


def vgg16(**kwargs: Any) -> VGG:
    """VGG of 16 layers."""
    return get_vgg(16, **kwargs)


def vgg19(**kwargs: Any) -> VGG:
    """VGG of 19 layers."""
    return get_vgg(19, **kwargs)


def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG of 11 layers with batch normalisation."""
    return get_vgg(11, **{**kwargs, "batch_norm": True})


def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG of 13 layers with batch normalisation."""
    return get_vgg(13, **{**kwargs, "batch_norm": True})


def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG of 16 layers with batch normalisation."""
    return get_vgg(16, **{**kwargs, "batch_norm": True})


def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG of 19 layers with batch normalisation."""
    return get_vgg(19, **{**kwargs, "batch_norm": True})
