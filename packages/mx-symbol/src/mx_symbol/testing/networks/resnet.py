# SPDX-License-Identifier: Apache-2.0
"""Residual networks, version 1."""

from __future__ import annotations

from collections.abc import Callable

from mx_symbol import sym
from mx_symbol.testing.networks.layers import classifier, convolution, max_pooling, normalised, relu

Block = Callable[[sym.Symbol, int, int], sym.Symbol]


def resnet18_v1() -> sym.Symbol:
    """18 layers: 1.8 G multiply-adds an image."""
    return _resnet(_basic, (2, 2, 2, 2), (64, 128, 256, 512))


def resnet50_v1() -> sym.Symbol:
    """50 layers: 3.9 G multiply-adds an image."""
    return _resnet(_bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048))


def _resnet(block: Block, depths: tuple[int, ...], widths: tuple[int, ...]) -> sym.Symbol:
    x = relu(normalised(convolution(sym.Variable("data"), 64, 7, 2)))
    x = max_pooling(x, 3, 2, 1)
    before = 64
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            shortcut = x if before == width else normalised(convolution(x, width, 1, stride))
            x = relu(block(x, width, stride) + shortcut)
            before = width
    return classifier(x)


def _basic(x: sym.Symbol, width: int, stride: int) -> sym.Symbol:
    x = relu(normalised(convolution(x, width, 3, stride)))
    return normalised(convolution(x, width, 3))


def _bottleneck(x: sym.Symbol, width: int, stride: int) -> sym.Symbol:
    x = relu(normalised(convolution(x, width // 4, 1, stride, bias=True)))
    x = relu(normalised(convolution(x, width // 4, 3)))
    return normalised(convolution(x, width, 1, bias=True))
