# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions over 1, 2 and 3 axes: the gradients of convolutions by their data."""

from __future__ import annotations

from typing import Any

from mx_gluon.nn.convolution import Convolution
from mx_gluon.nn.extents import Extent
from mx_gluon.parameter.filling import Init


class _Transposed(Convolution):
    """What the three share."""

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent,
        padding: Extent,
        output_padding: Extent,
        dilation: Extent,
        groups: int,
        layout: str,
        in_channels: int,
        activation: str | None,
        use_bias: bool,
        weight_initializer: Init,
        bias_initializer: Init,
        op_name: str = "Deconvolution",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
            weight_initializer, bias_initializer, op_name, output_padding, **kwargs,
        )  # fmt: skip
        self.outpad = self._kwargs["adj"]


class Conv1DTranspose(_Transposed):
    """A transposed convolution along one axis.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    output_padding : int or sequence of int
        Elements that are added to the output at one side.
    channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias, weight_initializer, \
bias_initializer, in_channels : as in `Conv1D`

    Shapes: x (N, C, W), output (N, channels, (W − 1)·strides − 2·padding + kernel_size + output_padding).
    """

    _axes = 1

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = 1,
        padding: Extent = 0,
        output_padding: Extent = 0,
        dilation: Extent = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, output_padding, dilation, groups, layout, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv2DTranspose(_Transposed):
    """A transposed convolution over images.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels, kernel_size, strides, padding, output_padding, dilation, groups, layout, activation, use_bias, \
weight_initializer, bias_initializer, in_channels : as in `Conv1DTranspose` and `Conv2D`
    """

    _axes = 2

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = (1, 1),
        padding: Extent = (0, 0),
        output_padding: Extent = (0, 0),
        dilation: Extent = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, output_padding, dilation, groups, layout, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv3DTranspose(_Transposed):
    """A transposed convolution over volumes.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels, kernel_size, strides, padding, output_padding, dilation, groups, layout, activation, use_bias, \
weight_initializer, bias_initializer, in_channels : as in `Conv1DTranspose` and `Conv3D`
    """

    _axes = 3

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = (1, 1, 1),
        padding: Extent = (0, 0, 0),
        output_padding: Extent = (0, 0, 0),
        dilation: Extent = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, output_padding, dilation, groups, layout, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip
