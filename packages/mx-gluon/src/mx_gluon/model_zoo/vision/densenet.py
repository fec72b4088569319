# SPDX-License-Identifier: Apache-2.0
"""DenseNet.

Source: Huang, Liu, van der Maaten and Weinberger, Densely Connected Convolutional Networks, CVPR 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.contrib.nn import HybridConcurrent, Identity
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

#: layers with weights -> first channels, growth, layers of the stages
_SPECS = {
    121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)), 169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}  # fmt: skip


class DenseNet(Network):
    """Stages of layers, each of which reads what all before it in the stage have made.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    num_init_features : int
        Channels of the first convolution.
    growth_rate : int
        Channels that each layer adds.
    block_config : sequence of int
        Layers of each stage.
    bn_size : int
        Channels between the two convolutions of a layer, in growths.
    dropout : float
        Rate of dropout after each layer.
    classes : int
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                nn.Conv2D(num_init_features, kernel_size=7, strides=2, padding=3, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.MaxPool2D(pool_size=3, strides=2, padding=1),
            )
            channels = num_init_features
            for i, layers in enumerate(block_config, 1):
                self.features.add(_stage(i, layers, growth_rate, bn_size, dropout))
                channels += layers * growth_rate
                if i < len(block_config):
                    channels //= 2
                    self.features.add(_transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(pool_size=7), nn.Flatten())
            self.output = nn.Dense(classes)


def _stage(number: int, layers: int, growth: int, bn_size: int, dropout: float) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix=f"stage{number}_")
    with out.name_scope():
        out.add(*(_layer(growth, bn_size, dropout) for _ in range(layers)))
    return out


def _layer(growth: int, bn_size: int, dropout: float) -> HybridConcurrent:
    new = nn.HybridSequential(prefix="")
    new.add(
        nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(bn_size * growth, kernel_size=1, use_bias=False),
        nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(growth, kernel_size=3, padding=1, use_bias=False),
    )  # fmt: skip
    if dropout:
        new.add(nn.Dropout(dropout))
    out = HybridConcurrent(axis=1, prefix="")
    out.add(Identity(), new)
    return out


def _transition(channels: int) -> nn.HybridSequential:
    """Halves channels and extents."""
    out = nn.HybridSequential(prefix="")
    out.add(
        nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, kernel_size=1, use_bias=False),
        nn.AvgPool2D(pool_size=2, strides=2),
    )  # fmt: skip
    return out


def _made(
    layers: int, pretrained: bool, ctx: Context | None, root: Root, options: dict[str, Any]
) -> DenseNet:
    return filled(DenseNet(*_SPECS[layers], **options), f"densenet{layers}", pretrained, ctx, root)


def densenet121(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 121 layers; arguments as of `get_model`."""
    return _made(121, pretrained, ctx, root, kwargs)


def densenet161(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 161 layers; arguments as of `get_model`."""
    return _made(161, pretrained, ctx, root, kwargs)


def densenet169(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 169 layers; arguments as of `get_model`."""
    return _made(169, pretrained, ctx, root, kwargs)


def densenet201(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 201 layers; arguments as of `get_model`."""
    return _made(201, pretrained, ctx, root, kwargs)
