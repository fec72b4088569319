# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: another convolution says where the windows' elements lie."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError
from mx_gluon.nn.activation import Activation
from mx_gluon.nn.extents import Extent, check_layout, extent
from mx_gluon.parameter import Parameter
from mx_gluon.parameter.filling import Init
from mx_symbol import sym
from mx_symbol.graph.shape_mode import is_np_shape


class _Deformable(HybridBlock):
    """What both share: the parameters of two convolutions."""

    #: numbers that each element of a window needs
    _per_element: ClassVar[int]

    def __init__(
        self,
        channels: int,
        kernel_size: Extent = (1, 1),
        strides: Extent = (1, 1),
        padding: Extent = (0, 0),
        dilation: Extent = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        offset_weight_initializer: Init = "zeros",
        offset_bias_initializer: Init = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Extent | None = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        what = f"[{self.name}]"
        check_layout(layout, ("NCHW",), what)
        if adj:
            raise RefusedError(
                f"{what} adj: expected None, since no convolution here is transposed, got {adj!r}"
            )
        self._channels, self._in_channels = channels, in_channels
        self._op_name = op_name or type(self).__name__
        common: dict[str, Any] = {
            "kernel": extent(kernel_size, 2, f"{what} kernel_size"),
            "stride": extent(strides, 2, f"{what} strides"),
            "dilate": extent(dilation, 2, f"{what} dilation"),
            "pad": extent(padding, 2, f"{what} padding"),
            "num_group": groups,
            "layout": layout,
        }
        points = num_deformable_group * common["kernel"][0] * common["kernel"][1]
        self.offset_split_index = 2 * points
        self._kwargs_offset = {
            **common, "num_filter": self._per_element * points, "no_bias": not offset_use_bias,
        }  # fmt: skip
        self._kwargs_deformable_conv = {
            **common, "num_filter": channels, "num_deformable_group": num_deformable_group, "no_bias": not use_bias,
        }  # fmt: skip
        with self.name_scope():
            self._make_parameters(
                (offset_weight_initializer, offset_bias_initializer), (weight_initializer, bias_initializer)
            )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _make_parameters(self, offset: tuple[Init, Init], filters: tuple[Init, Init]) -> None:
        """Makes the parameters in the order of MXNet's."""
        raise NotImplementedError

    def _make_offset(self, weight_init: Init, bias_init: Init) -> None:
        data = sym.var("data", shape=(1, self._in_channels or _unknown(), _unknown(), _unknown()))
        shapes = sym.Convolution(data, name="offset", **self._kwargs_offset).infer_shape_partial()[0]
        self.offset_weight = self._parameter("offset_weight", shapes[1], weight_init)
        self.offset_bias: Parameter | None = None
        if not self._kwargs_offset["no_bias"]:
            self.offset_bias = self._parameter("offset_bias", shapes[2], bias_init)

    def _make_filters(self, weight_init: Init, bias_init: Init) -> None:
        shape = (self._channels, _unknown(), *self._kwargs_deformable_conv["kernel"])
        self.deformable_conv_weight = self._parameter("deformable_conv_weight", shape, weight_init)
        self.deformable_conv_bias: Parameter | None = None
        if not self._kwargs_deformable_conv["no_bias"]:
            self.deformable_conv_bias = self._parameter("deformable_conv_bias", (self._channels,), bias_init)

    def _parameter(self, name: str, shape: tuple[int, ...], init: Init) -> Parameter:
        made: Parameter = self.params.get(name, shape=shape, init=init, allow_deferred_init=True)
        return made

    def _offset(self, F: Any, x: Any, weight: Any, bias: Any) -> Any:
        inputs = (x, weight) if bias is None else (x, weight, bias)
        return F.Convolution(*inputs, cudnn_off=True, **self._kwargs_offset)

    def _convolved(self, F: Any, *inputs: Any) -> Any:
        """The deformable convolution of what is not None, with the activation."""
        op = getattr(F.contrib, self._op_name)
        given = [each for each in inputs if each is not None]
        made = op(*given, name="fwd", **self._kwargs_deformable_conv)
        return made if self.act is None else self.act(made)


class DeformableConvolution(_Deformable):
    """A convolution over images whose windows' elements are moved by offsets that another convolution computes.

    With the offsets at 0, as in the beginning, it is a convolution.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    channels : int
        Of the output.
    kernel_size, strides, padding, dilation : int or sequence of 2 int
        Elements per axis, of both convolutions.
    groups : int
        Into which the channels are divided; each output group sees one input group.
    num_deformable_group : int
        Groups of channels, each with offsets of its own.
    layout : "NCHW"
    use_bias, offset_use_bias : bool
        Whether the convolution, or the one that computes offsets, adds a bias.
    in_channels : int
        0 is found out at the first batch.
    activation : str, optional
        As for `Activation`.
    weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer : Initializer or str
    op_name : str, optional
        Another operator of `contrib` with the same inputs.
    adj : None
        Accepted for compatibility.

    Shapes: x (N, C, H, W), output (N, channels, H', W'), with H' and W' as of `nn.Conv2D`.

    Raises
    ------
    RefusedError  another layout, or another number of integers than 2

    Source: Dai et al., Deformable Convolutional Networks, ICCV 2017.
    """

    _per_element = 2

    def _make_parameters(self, offset: tuple[Init, Init], filters: tuple[Init, Init]) -> None:
        self._make_offset(*offset)
        self._make_filters(*filters)

    def _alias(self) -> str:
        return "deformable_conv"

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """The convolution of the elements at the offsets, with the activation."""
        offset = self._offset(F, x, offset_weight, offset_bias)
        return self._convolved(F, x, offset, deformable_conv_weight, deformable_conv_bias)

    def __repr__(self) -> str:
        kwargs, shape = self._kwargs_deformable_conv, self.deformable_conv_weight.shape or (self._channels, 0)
        parts = [f"{shape[1] if shape[1] > 0 else None} -> {shape[0]}"]
        parts += [f"kernel_size={kwargs['kernel']}", f"stride={kwargs['stride']}"]
        if any(kwargs["pad"]):
            parts.append(f"padding={kwargs['pad']}")
        if any(size != 1 for size in kwargs["dilate"]):
            parts.append(f"dilation={kwargs['dilate']}")
        if kwargs["num_group"] != 1:
            parts.append(f"groups={kwargs['num_group']}")
        if self.deformable_conv_bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class ModulatedDeformableConvolution(_Deformable):
    """As `DeformableConvolution`, with a weight from 0 to 2 for each element, computed as the offsets are.

    Threads: as `HybridBlock`.

    Parameters, shapes and errors are those of `DeformableConvolution`.

    Source: Zhu et al., Deformable ConvNets v2, CVPR 2019.
    """

    _per_element = 3

    def _make_parameters(self, offset: tuple[Init, Init], filters: tuple[Init, Init]) -> None:
        self._make_filters(*filters)
        self._make_offset(*offset)

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """The convolution of the elements at the offsets, times their weights, with the activation."""
        made = self._offset(F, x, offset_weight, offset_bias)
        offset = F.slice_axis(made, axis=1, begin=0, end=self.offset_split_index)
        mask = F.slice_axis(made, axis=1, begin=self.offset_split_index, end=None)
        mask = F.sigmoid(mask) * 2
        return self._convolved(F, x, offset, mask, deformable_conv_weight, deformable_conv_bias)


def _unknown() -> int:
    return -1 if is_np_shape() else 0
