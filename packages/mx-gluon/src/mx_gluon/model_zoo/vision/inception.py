# SPDX-License-Identifier: Apache-2.0
"""Inception, version 3.

Source: Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, Rethinking the Inception Architecture for Computer Vision, CVPR
2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.context import Context
from mx_gluon import nn
from mx_gluon.block import HybridBlock
from mx_gluon.contrib.nn import HybridConcurrent
from mx_gluon.model_zoo.vision.network import Network, Root, filled

__all__ = ["Inception3", "inception_v3"]

Extent = int | tuple[int, int]
#: a convolution: channels, kernel, and padding and stride if they are not 0 and 1
Convolution = tuple[int, Extent] | tuple[int, Extent, Extent] | tuple[int, Extent, Extent, int]


class Inception3(Network):
    """Modules of branches side by side, for images (3, 299, 299).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    classes : int
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                _convolution(32, 3, 0, 2), _convolution(32, 3), _convolution(64, 3, 1), nn.MaxPool2D(3, 2),
                _convolution(80, 1), _convolution(192, 3), nn.MaxPool2D(3, 2),
            )  # fmt: skip
            for pooled, prefix in ((32, "A1_"), (64, "A2_"), (64, "A3_")):
                self.features.add(_module(prefix, _squares(pooled)))
            self.features.add(_module("B_", _GRID_35, pooled="max"))
            for between, prefix in ((128, "C1_"), (160, "C2_"), (160, "C3_"), (192, "C4_")):
                self.features.add(_module(prefix, _rows_and_columns(between)))
            self.features.add(_module("D_", _GRID_17, pooled="max"))
            self.features.add(_wide("E1_"), _wide("E2_"), nn.AvgPool2D(pool_size=8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def _convolution(channels: int, kernel: Extent, padding: Extent = 0, stride: int = 1) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    out.add(
        nn.Conv2D(channels, kernel, stride, padding, use_bias=False),
        nn.BatchNorm(epsilon=0.001),
        nn.Activation("relu"),
    )
    return out


def _branch(*convolutions: Convolution, pool: HybridBlock | None = None) -> nn.HybridSequential:
    out = nn.HybridSequential(prefix="")
    if pool is not None:
        out.add(pool)
    out.add(*(_convolution(*each) for each in convolutions))
    return out


def _averaged() -> nn.AvgPool2D:
    return nn.AvgPool2D(pool_size=3, strides=1, padding=1)


def _module(
    prefix: str, branches: Sequence[Sequence[Convolution]], pooled: str = "average"
) -> HybridConcurrent:
    """Branches side by side; the last one follows a pooling with averages, or is one with maxima."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        if pooled == "max":
            out.add(
                *(_branch(*each) for each in branches), _branch(pool=nn.MaxPool2D(pool_size=3, strides=2))
            )
        else:
            *plain, last = branches
            out.add(*(_branch(*each) for each in plain), _branch(*last, pool=_averaged()))
    return out


def _squares(pooled: int) -> list[list[Convolution]]:
    """Figure 5 of the paper, on a grid of 35."""
    return [[(64, 1)], [(48, 1), (64, 5, 2)], [(64, 1), (96, 3, 1), (96, 3, 1)], [(pooled, 1)]]


#: to a grid of 17
_GRID_35: list[list[Convolution]] = [[(384, 3, 0, 2)], [(64, 1), (96, 3, 1), (96, 3, 0, 2)]]
_ROW: tuple[tuple[int, int], tuple[int, int]] = ((1, 7), (0, 3))
_COLUMN: tuple[tuple[int, int], tuple[int, int]] = ((7, 1), (3, 0))


def _rows_and_columns(between: int) -> list[list[Convolution]]:
    """Figure 6 of the paper, on a grid of 17."""
    return [
        [(192, 1)],
        [(between, 1), (between, *_ROW), (192, *_COLUMN)],
        [(between, 1), (between, *_COLUMN), (between, *_ROW), (between, *_COLUMN), (192, *_ROW)],
        [(192, 1)],
    ]


#: to a grid of 8
_GRID_17: list[list[Convolution]] = [
    [(192, 1), (320, 3, 0, 2)],
    [(192, 1), (192, *_ROW), (192, *_COLUMN), (192, 3, 0, 2)],
]


def _wide(prefix: str) -> HybridConcurrent:
    """Figure 7 of the paper, on a grid of 8: two branches end in a row and a column side by side."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        out.add(_branch((320, 1)), _split(_branch((384, 1))), _split(_branch((448, 1), (384, 3, 1))))
        out.add(_branch((192, 1), pool=_averaged()))
    return out


def _split(before: nn.HybridSequential) -> nn.HybridSequential:
    both = HybridConcurrent(axis=1, prefix="")
    both.add(_branch((384, (1, 3), (0, 1))), _branch((384, (3, 1), (1, 0))))
    out = nn.HybridSequential(prefix="")
    out.add(before, both)
    return out


def inception_v3(
    pretrained: bool = False, ctx: Context | None = None, root: Root = None, **kwargs: Any
) -> Inception3:
    """Inception of version 3; arguments as of `get_model`."""
    return filled(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
