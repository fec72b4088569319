# SPDX-License-Identifier: Apache-2.0
"""ResNet, versions 1 and 2.

Source: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, CVPR 2016; the same, Identity Mappings in
Deep Residual Networks, ECCV 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = [
    "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2", "get_resnet",
    "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2", "resnet101_v1",
    "resnet101_v2", "resnet152_v1", "resnet152_v2",
]  # fmt: skip


def _convolution(
    channels: int, kernel: int, stride: int = 1, inputs: int = 0, bias: bool = False
) -> nn.Conv2D:
    return nn.Conv2D(channels, kernel, strides=stride, padding=kernel // 2, use_bias=bias, in_channels=inputs)


class _BlockV1(HybridBlock):
    """A body beside a shortcut, and the positive part of their sum."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(*self._body(channels, stride, in_channels))
        self.downsample: Any = None
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(_convolution(channels, 1, stride, in_channels), nn.BatchNorm())

    def _body(self, channels: int, stride: int, in_channels: int) -> Sequence[HybridBlock]:
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Features (N, channels, height, width)."""
        shortcut = self.downsample(x) if self.downsample else x
        return F.Activation(shortcut + self.body(x), act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions of 3 by 3 beside a shortcut.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels : int
        Of the result.
    stride : int
    downsample : bool
        Whether a convolution makes the shortcut fit.
    in_channels : int
        Of the input; 0 to find out.
    """

    def _body(self, channels: int, stride: int, in_channels: int) -> Sequence[HybridBlock]:
        return (
            _convolution(channels, 3, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"),
            _convolution(channels, 3, 1, channels), nn.BatchNorm(),
        )  # fmt: skip


class BottleneckV1(_BlockV1):
    """A convolution of 3 by 3 on a quarter of the channels beside a shortcut.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels, stride, downsample, in_channels : as of `BasicBlockV1`
    """

    def _body(self, channels: int, stride: int, in_channels: int) -> Sequence[HybridBlock]:
        narrow = channels // 4
        return (
            _convolution(narrow, 1, stride, bias=True), nn.BatchNorm(), nn.Activation("relu"),
            _convolution(narrow, 3, 1, narrow), nn.BatchNorm(), nn.Activation("relu"),
            _convolution(channels, 1, bias=True), nn.BatchNorm(),
        )  # fmt: skip


class _BlockV2(HybridBlock):
    """Normalised and activated before each convolution, beside a shortcut."""

    #: as many convolutions follow a normalisation each
    _count: int

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        for i, convolution in enumerate(self._convolutions(channels, stride, in_channels), 1):
            setattr(self, f"bn{i}", nn.BatchNorm())
            setattr(self, f"conv{i}", convolution())
        self.downsample: Any = None
        if downsample:
            self.downsample = _convolution(channels, 1, stride, in_channels)

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Sequence[Any]:
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Features (N, channels, height, width)."""
        shortcut = x
        for i in range(1, self._count + 1):
            x = F.Activation(getattr(self, f"bn{i}")(x), act_type="relu")
            if i == 1 and self.downsample:
                shortcut = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + shortcut


class BasicBlockV2(_BlockV2):
    """Two convolutions of 3 by 3, each after its normalisation, beside a shortcut.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels, stride, downsample, in_channels : as of `BasicBlockV1`
    """

    _count = 2

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Sequence[Any]:
        return (
            lambda: _convolution(channels, 3, stride, in_channels),
            lambda: _convolution(channels, 3, 1, channels),
        )


class BottleneckV2(_BlockV2):
    """A convolution of 3 by 3 on a quarter of the channels, each after its normalisation, beside a shortcut.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels, stride, downsample, in_channels : as of `BasicBlockV1`
    """

    _count = 3

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Sequence[Any]:
        narrow = channels // 4
        return (
            lambda: _convolution(narrow, 1),
            lambda: _convolution(narrow, 3, stride, narrow),
            lambda: _convolution(channels, 1),
        )


class _ResNet(Network):
    """Stages of blocks."""

    def _begin(self, channels: int, thumbnail: bool) -> None:
        """The layers before the stages."""
        if thumbnail:
            self.features.add(_convolution(channels, 3))
            return
        self.features.add(
            nn.Conv2D(channels, 7, 2, 3, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(3, 2, 1),
        )

    def _add_stages(self, block: type[HybridBlock], layers: Sequence[int], channels: Sequence[int]) -> None:
        if len(layers) != len(channels) - 1:
            raise RefusedError(
                f"[{type(self).__name__}] channels: expected {len(layers) + 1} numbers, one more than layers, got "
                f"{list(channels)}"
            )
        for i, (count, before, after) in enumerate(zip(layers, channels, channels[1:], strict=False)):
            stage = nn.HybridSequential(prefix=f"stage{i + 1}_")
            with stage.name_scope():
                first: Any = block
                stage.add(first(after, 1 if i == 0 else 2, after != before, in_channels=before, prefix=""))
                stage.add(*(first(after, 1, False, in_channels=after, prefix="") for _ in range(count - 1)))
            self.features.add(stage)


class ResNetV1(_ResNet):
    """Version 1: each block activates its sum.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    block : type of HybridBlock
        `BasicBlockV1` or `BottleneckV1`.
    layers : sequence of int
        Blocks of each stage.
    channels : sequence of int
        Before the first stage and after each.
    classes : int
    thumbnail : bool
        For small images: the first convolution is of 3 by 3, and nothing is pooled.

    Raises
    ------
    RefusedError  there is not one more of `channels` than of `layers`
    """

    def __init__(
        self,
        block: type[HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._begin(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """Version 2: each block normalises and activates what it reads.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    block : type of HybridBlock
        `BasicBlockV2` or `BottleneckV2`.
    layers, channels, classes, thumbnail : as of `ResNetV1`

    Raises
    ------
    RefusedError  there is not one more of `channels` than of `layers`
    """

    def __init__(
        self,
        block: type[HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._begin(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


#: layers with weights -> whether blocks have bottlenecks, blocks of each stage
_SPECS = {
    18: (False, (2, 2, 2, 2)), 34: (False, (3, 4, 6, 3)), 50: (True, (3, 4, 6, 3)), 101: (True, (3, 4, 23, 3)),
    152: (True, (3, 8, 36, 3)),
}  # fmt: skip
_NETWORKS: dict[int, type[ResNetV1] | type[ResNetV2]] = {1: ResNetV1, 2: ResNetV2}
_BLOCKS: dict[tuple[int, bool], type[HybridBlock]] = {
    (1, False): BasicBlockV1, (1, True): BottleneckV1, (2, False): BasicBlockV2, (2, True): BottleneckV2,
}  # fmt: skip


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: Root = None,
    **kwargs: Any,
) -> ResNetV1 | ResNetV2:
    """ResNet of version 1 or 2 with 18, 34, 50, 101 or 152 layers; other arguments as of `get_model`.

    Raises
    ------
    RefusedError  there is no such network
    """
    if num_layers not in _SPECS:
        raise RefusedError(f"[get_resnet] num_layers: expected one of {sorted(_SPECS)}, got {num_layers}")
    if version not in _NETWORKS:
        raise RefusedError(f"[get_resnet] version: expected 1 or 2, got {version}")
    narrow, layers = _SPECS[num_layers]
    channels = (64, 256, 512, 1024, 2048) if narrow else (64, 64, 128, 256, 512)
    net = _NETWORKS[version](_BLOCKS[version, narrow], layers, channels, **kwargs)
    return filled(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


def resnet18_v1(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 18 layers, version 1."""
    return get_resnet(1, 18, **kwargs)


def resnet34_v1(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 34 layers, version 1."""
    return get_resnet(1, 34, **kwargs)


def resnet50_v1(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 50 layers, version 1."""
    return get_resnet(1, 50, **kwargs)


def resnet101_v1(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 101 layers, version 1."""
    return get_resnet(1, 101, **kwargs)


def resnet152_v1(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 152 layers, version 1."""
    return get_resnet(1, 152, **kwargs)


def resnet18_v2(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 18 layers, version 2."""
    return get_resnet(2, 18, **kwargs)


def resnet34_v2(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 34 layers, version 2."""
    return get_resnet(2, 34, **kwargs)


def resnet50_v2(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 50 layers, version 2."""
    return get_resnet(2, 50, **kwargs)


def resnet101_v2(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 101 layers, version 2."""
    return get_resnet(2, 101, **kwargs)


def resnet152_v2(**kwargs: Any) -> ResNetV1 | ResNetV2:
    """ResNet of 152 layers, version 2."""
    return get_resnet(2, 152, **kwargs)
