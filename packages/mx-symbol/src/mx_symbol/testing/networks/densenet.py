# SPDX-License-Identifier: Apache-2.0
"""DenseNet: every layer reads all layers before it in its block."""

from __future__ import annotations

from mx_symbol import sym
from mx_symbol.testing.networks.layers import convolution, max_pooling, normalised, relu

GROWTH = 32


def densenet121() -> sym.Symbol:
    """121 layers, growth 32: 2.9 G multiply-adds an image."""
    x = relu(normalised(convolution(sym.Variable("data"), 64, 7, 2)))
    x = max_pooling(x, 3, 2, 1)
    width = 64
    depths = (6, 12, 24, 16)
    for i, depth in enumerate(depths):
        for _ in range(depth):
            x = sym.concat(x, _layer(x), dim=1)
            width += GROWTH
        x = relu(normalised(x))
        if i + 1 < len(depths):
            width //= 2
            x = convolution(x, width, 1)
            x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg")
    x = sym.Pooling(x, kernel=(7, 7), pool_type="avg")
    return sym.FullyConnected(sym.Flatten(x), num_hidden=1000)


def _layer(x: sym.Symbol) -> sym.Symbol:
    x = convolution(relu(normalised(x)), 4 * GROWTH, 1)
    return convolution(relu(normalised(x)), GROWTH, 3)
