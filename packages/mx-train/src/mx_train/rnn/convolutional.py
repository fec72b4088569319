# SPDX-License-Identifier: Apache-2.0
"""Cells whose products are convolutions, for sequences of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from mx_core.errors import ArgumentError
from mx_symbol import sym
from mx_symbol.symbol import Symbol, Variable
from mx_train.rnn.cell import RNNParams
from mx_train.rnn.gated import Gated, GatedUnit, LongShortTerm, Plain

_LEAKY = partial(sym.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(Gated):
    """Base of the cells whose states are images; the state keeps the extent of the convolved input.

    Parameters
    ----------
    input_shape : sequence of int
        Of one step, with the batch axis, as `conv_layout` says.
    num_hidden : int
        Channels of the state.
    h2h_kernel, h2h_dilate : sequences of int
        Of the convolution of the state; the kernel is odd.
    i2h_kernel, i2h_stride, i2h_pad, i2h_dilate : sequences of int
        Of the convolution of the input.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : optional
        Initializers or their names.
    activation : str or callable
        As of `Activation`, or a function of a symbol.
    prefix, params
        As of `BaseRNNCell`; by default `ConvRNN_`, `ConvLSTM_` or `ConvGRU_`.
    conv_layout : str
        `NCHW` or `NHWC`.
    """

    _default_prefix: ClassVar[str] = ""
    #: whether the axis of a slice is always said
    _says_axis: ClassVar[bool] = False

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Sequence[int] = (3, 3),
        h2h_dilate: Sequence[int] = (1, 1),
        i2h_kernel: Sequence[int] = (3, 3),
        i2h_stride: Sequence[int] = (1, 1),
        i2h_pad: Sequence[int] = (1, 1),
        i2h_dilate: Sequence[int] = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(self._default_prefix if prefix is None else prefix, params)
        if any(k % 2 == 0 for k in h2h_kernel):
            raise ArgumentError(
                f"[{type(self).__name__}] h2h_kernel: expected odd numbers, got {tuple(h2h_kernel)}"
            )
        self._num_hidden, self._layout, self._activation = num_hidden, conv_layout, activation
        same = tuple(d * (k - 1) // 2 for k, d in zip(h2h_kernel, h2h_dilate, strict=True))
        self._windows = {
            "i2h": _window(i2h_kernel, i2h_stride, i2h_pad, i2h_dilate),
            "h2h": _window(h2h_kernel, (1,) * len(same), same, h2h_dilate),
        }
        self._of = {
            "i2h": (
                self._params.get("i2h_weight", init=i2h_weight_initializer),
                self._params.get("i2h_bias", init=i2h_bias_initializer),
            ),
            "h2h": (
                self._params.get("h2h_weight", init=h2h_weight_initializer),
                self._params.get("h2h_bias", init=h2h_bias_initializer),
            ),
        }
        one = sym.Convolution(
            Variable("data"), num_filter=num_hidden, layout=conv_layout, **self._windows["i2h"]
        )
        shapes = one.infer_shape(data=tuple(input_shape))[1]
        assert shapes is not None  # the input's is known
        self._shape = (0, *shapes[0][1:])

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """One state, an image with `num_hidden` channels."""
        return [{"shape": self._shape, "__layout__": self._layout}]

    def _product(self, group: str, values: Symbol, name: str) -> Symbol:
        weight, bias = self._of[group]
        result: Symbol = sym.Convolution(
            data=values, weight=weight, bias=bias, num_filter=self._num_hidden * len(self._gate_names),
            layout=self._layout, name=name, **self._windows[group],
        )  # fmt: skip
        return result

    def _slices(self, values: Symbol, name: str) -> list[Symbol]:
        axis = self._layout.index("C")
        options = {"axis": axis} if self._says_axis or axis != 1 else {}
        return list(sym.SliceChannel(values, num_outputs=len(self._gate_names), name=name, **options))


def _window(
    kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilate: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    return {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pad), "dilate": tuple(dilate)}


class ConvRNNCell(Plain, BaseConvRNNCell):
    """`RNNCell` with convolutions; parameters as of `BaseConvRNNCell`."""

    _default_prefix = "ConvRNN_"


class ConvLSTMCell(LongShortTerm, BaseConvRNNCell):
    """`LSTMCell` with convolutions; parameters as of `BaseConvRNNCell`.

    Source: Shi et al., Convolutional LSTM Network, 2015.
    """

    _default_prefix = "ConvLSTM_"
    _says_axis = True


class ConvGRUCell(GatedUnit, BaseConvRNNCell):
    """`GRUCell` with convolutions; parameters as of `BaseConvRNNCell`."""

    _default_prefix = "ConvGRU_"
