# SPDX-License-Identifier: Apache-2.0
"""MobileNet, version 1: depthwise and pointwise convolutions in turns."""

from __future__ import annotations

from mx_symbol import sym
from mx_symbol.testing.networks.layers import classifier, convolution, normalised, relu

#: channels after each pair, and its stride
PAIRS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet1_0() -> sym.Symbol:
    """Width 1.0: 0.57 G multiply-adds an image."""
    x = relu(normalised(convolution(sym.Variable("data"), 32, 3, 2)))
    before = 32
    for width, stride in PAIRS:
        x = relu(normalised(convolution(x, before, 3, stride, groups=before)))
        x = relu(normalised(convolution(x, width, 1)))
        before = width
    return classifier(x)
