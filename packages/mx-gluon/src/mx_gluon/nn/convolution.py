# SPDX-License-Identifier: Apache-2.0
"""Convolutions over 1, 2 and 3 axes."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_gluon.block import HybridBlock
from mx_gluon.nn.activation import Activation
from mx_gluon.nn.extents import Extent, check_layout, extent
from mx_gluon.parameter import Parameter
from mx_gluon.parameter.filling import Init
from mx_symbol import sym
from mx_symbol.graph.shape_mode import is_np_shape

#: layouts per number of axes
LAYOUTS = {1: ("NCW",), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class Convolution(HybridBlock):
    """What convolutions and transposed ones share."""

    _axes: ClassVar[int]

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent,
        padding: Extent,
        dilation: Extent,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        op_name: str = "Convolution",
        adj: Extent | None = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        what = f"[{self.name}]"
        check_layout(layout, LAYOUTS[self._axes], what)
        with self.name_scope():
            self._channels = channels
            self._in_channels = in_channels
            self._op_name = op_name
            self._kwargs: dict[str, Any] = {
                "kernel": extent(kernel_size, self._axes, f"{what} kernel_size"),
                "stride": extent(strides, self._axes, f"{what} strides"),
                "dilate": extent(dilation, self._axes, f"{what} dilation"),
                "pad": extent(padding, self._axes, f"{what} padding"),
                "num_filter": channels,
                "num_group": groups,
                "no_bias": not use_bias,
                "layout": layout,
            }
            if adj is not None:
                self._kwargs["adj"] = extent(adj, self._axes, f"{what} output_padding")
            shapes = self._parameter_shapes(in_channels, layout)
            self.weight = self.params.get(
                "weight", shape=shapes[1], init=weight_initializer, allow_deferred_init=True
            )
            self.bias: Parameter | None = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=shapes[2], init=bias_initializer, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _parameter_shapes(self, in_channels: int, layout: str) -> list[tuple[int, ...]]:
        """Shapes of the operator's arguments, as far as the number of channels tells them."""
        unknown = -1 if is_np_shape() else 0
        shape = [unknown] * len(layout)
        shape[layout.find("N")] = 1
        shape[layout.find("C")] = in_channels or unknown
        made = getattr(sym, self._op_name)(sym.var("data", shape=shape), name="fwd", **self._kwargs)
        found: list[tuple[int, ...]] = made.infer_shape_partial()[0]
        return found

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """The convolution, with the activation."""
        inputs = (x, weight) if bias is None else (x, weight, bias)
        made = getattr(F, self._op_name)(*inputs, name="fwd", **self._kwargs)
        return made if self.act is None else self.act(made)

    def __repr__(self) -> str:
        shape = self.weight.shape or (self._channels, 0)
        parts = [f"{shape[1] or None} -> {shape[0]}"]
        parts += [f"kernel_size={self._kwargs['kernel']}", f"stride={self._kwargs['stride']}"]
        if any(self._kwargs["pad"]):
            parts.append(f"padding={self._kwargs['pad']}")
        if any(size != 1 for size in self._kwargs["dilate"]):
            parts.append(f"dilation={self._kwargs['dilate']}")
        if self._kwargs["num_group"] != 1:
            parts.append(f"groups={self._kwargs['num_group']}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class Conv1D(Convolution):
    """A convolution along one axis.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels : int
        Of the output.
    kernel_size, strides, padding, dilation : int or sequence of int
        Elements per axis.
    groups : int
        Into which the channels are divided; each output group sees one input group.
    layout : "NCW"
    activation : str, optional
        As for `Activation`.
    use_bias : bool
    weight_initializer, bias_initializer : Initializer or str
    in_channels : int
        0 is found out at the first batch.

    Shapes: x (N, C, W), output (N, channels, (W + 2·padding − dilation·(kernel_size − 1) − 1) // strides + 1).

    Raises
    ------
    RefusedError  a layout that it does not have, or another number of integers than axes
    """

    _axes = 1

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = 1,
        padding: Extent = 0,
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
            channels, kernel_size, strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
            weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv2D(Convolution):
    """A convolution over images.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCHW", "NHWC"}
    channels, kernel_size, strides, padding, dilation, groups, activation, use_bias, weight_initializer, \
bias_initializer, in_channels : as in `Conv1D`

    Shapes: x (N, C, H, W), output (N, channels, H', W'), with H' and W' as W' of `Conv1D`.
    """

    _axes = 2

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = (1, 1),
        padding: Extent = (0, 0),
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
            channels, kernel_size, strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
            weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv3D(Convolution):
    """A convolution over volumes.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCDHW", "NDHWC"}
    channels, kernel_size, strides, padding, dilation, groups, activation, use_bias, weight_initializer, \
bias_initializer, in_channels : as in `Conv1D`

    Shapes: x (N, C, D, H, W), output (N, channels, D', H', W').
    """

    _axes = 3

    def __init__(
        self,
        channels: int,
        kernel_size: Extent,
        strides: Extent = (1, 1, 1),
        padding: Extent = (0, 0, 0),
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
            channels, kernel_size, strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
            weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip
