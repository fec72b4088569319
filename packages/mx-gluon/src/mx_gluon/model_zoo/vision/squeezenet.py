# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet.

Source: Iandola et al., SqueezeNet: AlexNet-Level Accuracy with 50x Fewer Parameters, 2016; version 1.1 of its authors.
"""

from __future__ import annotations

from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.contrib.nn import HybridConcurrent
from mx_gluon.errors import RefusedError
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

#: version -> channels and kernel of the first convolution, channels of the modules; 0 is a pooling
_VERSIONS: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


class SqueezeNet(Network):
    """Modules that squeeze channels, and expand them by two kinds of convolutions.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    version : str
        `1.0` or `1.1`.
    classes : int

    Raises
    ------
    RefusedError  another version
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if version not in _VERSIONS:
            raise RefusedError(f"[SqueezeNet] version: expected 1.0 or 1.1, got {version!r}")
        (channels, kernel), modules = _VERSIONS[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel_size=kernel, strides=2), nn.Activation("relu"))
            for squeezed in modules:
                self.features.add(_fire(squeezed) if squeezed else nn.MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(
                nn.Conv2D(classes, kernel_size=1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten()
            )


def _convolution(channels: int, kernel: int, padding: int = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel, padding=padding), nn.Activation("relu"))
    return out


def _fire(squeezed: int) -> nn.HybridSequential:
    """A module: four times as many channels from each kind of convolution as it is squeezed to."""
    out = nn.HybridSequential(prefix="")
    out.add(_convolution(squeezed, 1))
    both = HybridConcurrent(axis=1, prefix="")
    both.add(_convolution(4 * squeezed, 1), _convolution(4 * squeezed, 3, 1))
    out.add(both)
    return out


def _made(
    version: str, pretrained: bool, ctx: Context | None, root: Root, options: dict[str, Any]
) -> SqueezeNet:
    return filled(SqueezeNet(version, **options), f"squeezenet{version}", pretrained, ctx, root)


def squeezenet1_0(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet 1.0; arguments as of `get_model`."""
    return _made("1.0", pretrained, ctx, root, kwargs)


def squeezenet1_1(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet 1.1; arguments as of `get_model`."""
    return _made("1.1", pretrained, ctx, root, kwargs)
