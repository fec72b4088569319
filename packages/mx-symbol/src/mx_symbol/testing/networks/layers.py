# SPDX-License-Identifier: Apache-2.0
"""Layers that several networks share."""

from __future__ import annotations

from mx_symbol import sym


def convolution(
    x: sym.Symbol, channels: int, kernel: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> sym.Symbol:
    """A square convolution that keeps the size at stride 1."""
    pad = kernel // 2
    return sym.Convolution(
        x, num_filter=channels, kernel=(kernel, kernel), stride=(stride, stride), pad=(pad, pad),
        num_group=groups, no_bias=not bias,
    )  # fmt: skip


def normalised(x: sym.Symbol) -> sym.Symbol:
    """Batch normalisation with a learned scale, as the model zoo has it."""
    return sym.BatchNorm(x, fix_gamma=False, eps=1e-5, momentum=0.9)


def relu(x: sym.Symbol) -> sym.Symbol:
    """max(x, 0)."""
    return sym.Activation(x, act_type="relu")


def max_pooling(x: sym.Symbol, kernel: int, stride: int, pad: int = 0) -> sym.Symbol:
    """The largest value of every window."""
    return sym.Pooling(x, kernel=(kernel, kernel), stride=(stride, stride), pad=(pad, pad), pool_type="max")


def classifier(x: sym.Symbol) -> sym.Symbol:
    """Mean over the image, then one linear layer to 1000 classes."""
    x = sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    return sym.FullyConnected(sym.Flatten(x), num_hidden=1000)
