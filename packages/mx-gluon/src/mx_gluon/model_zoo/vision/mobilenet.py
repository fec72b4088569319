# SPDX-License-Identifier: Apache-2.0
"""MobileNet, versions 1 and 2.

Source: Howard et al., MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications, 2017; Sandler
et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018.
"""

from __future__ import annotations

from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.block import HybridBlock
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = [
    "MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_25", "mobilenet0_5", "mobilenet0_75",
    "mobilenet1_0", "mobilenet_v2_0_25", "mobilenet_v2_0_5", "mobilenet_v2_0_75", "mobilenet_v2_1_0",
]  # fmt: skip

#: channels before and after each separable convolution of version 1, and its stride
_SEPARABLE = (
    (32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
    *((512, 512, 1),) * 5, (512, 1024, 2), (1024, 1024, 1),
)  # fmt: skip
#: expansion, channels, number and first stride of the bottlenecks of version 2 (table 2 of its paper)
_BOTTLENECKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class RELU6(HybridBlock):
    """What is positive, and 6 at most. Threads: as `HybridBlock`."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An array of any shape."""
        return F.clip(x, 0, 6, name="relu6")


def _convolution(
    channels: int, kernel: int = 1, stride: int = 1, groups: int = 1, active: type[HybridBlock] | None = None
) -> list[HybridBlock]:
    """A convolution with its normalisation and activation."""
    layers: list[HybridBlock] = [
        nn.Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False),
        nn.BatchNorm(scale=True),
    ]
    if active is not None:
        layers.append(active() if active is RELU6 else nn.Activation("relu"))
    return layers


class LinearBottleneck(HybridBlock):
    """Expands channels, convolves each, and reduces them, with a shortcut where shapes allow.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    in_channels, channels : int
        Before and after.
    t : int
        The expansion.
    stride : int
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            for layers in (
                _convolution(wide, active=RELU6),
                _convolution(wide, 3, stride, wide, RELU6),
                _convolution(channels),
            ):
                self.out.add(*layers)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Features (N, channels, height, width)."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Network):
    """Version 1: convolutions of each channel by itself, and of one pixel.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    multiplier : float
        Of the numbers of channels.
    classes : int
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(*_convolution(int(32 * multiplier), 3, 2, active=nn.Activation))
                for before, after, stride in _SEPARABLE:
                    wide = int(before * multiplier)
                    self.features.add(*_convolution(wide, 3, stride, wide, nn.Activation))
                    self.features.add(*_convolution(int(after * multiplier), active=nn.Activation))
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Network):
    """Version 2: bottlenecks that are wide inside.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    multiplier : float
        Of the numbers of channels.
    classes : int
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                before = int(32 * multiplier)
                self.features.add(*_convolution(before, 3, 2, active=RELU6))
                for expansion, channels, number, first in _BOTTLENECKS:
                    after = int(channels * multiplier)
                    for stride in (first, *(1,) * (number - 1)):
                        self.features.add(LinearBottleneck(before, after, expansion, stride))
                        before = after
                last = int(1280 * multiplier) if multiplier > 1.0 else 1280
                self.features.add(*_convolution(last, active=RELU6), nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def _version(multiplier: float) -> str:
    """A multiplier as names of files have it."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> MobileNet:
    """MobileNet with a part of its channels; other arguments as of `get_model`."""
    return filled(MobileNet(multiplier, **kwargs), f"mobilenet{_version(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> MobileNetV2:
    """MobileNet of version 2 with a part of its channels; other arguments as of `get_model`."""
    return filled(
        MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_version(multiplier)}", pretrained, ctx, root
    )


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """MobileNet with all channels."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """MobileNet with three quarters of its channels."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """MobileNet with half of its channels."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """MobileNet with a quarter of its channels."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """MobileNet of version 2 with all channels."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """MobileNet of version 2 with three quarters of its channels."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """MobileNet of version 2 with half of its channels."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """MobileNet of version 2 with a quarter of its channels."""
    return get_mobilenet_v2(0.25, **kwargs)
