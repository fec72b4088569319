# SPDX-License-Identifier: Apache-2.0
"""VGG: plain stacks of 3x3 convolutions."""

from __future__ import annotations

from mx_symbol import sym
from mx_symbol.testing.networks.layers import convolution, max_pooling, relu


def vgg16() -> sym.Symbol:
    """13 convolutions, 3 fully connected layers: 15.5 G multiply-adds an image, 138 M parameters."""
    x = sym.Variable("data")
    for depth, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(depth):
            x = relu(convolution(x, width, 3, bias=True))
        x = max_pooling(x, 2, 2)
    x = sym.Flatten(x)
    for _ in range(2):
        x = sym.Dropout(relu(sym.FullyConnected(x, num_hidden=4096)), p=0.5)
    return sym.FullyConnected(x, num_hidden=1000)
