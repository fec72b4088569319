# SPDX-License-Identifier: Apache-2.0
"""Cells whose products are convolutions, for sequences of signals, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mx_gluon.contrib.rnn.gates import GatedCell
from mx_gluon.errors import RefusedError
from mx_gluon.nn.extents import Extent, check_layout, extent
from mx_gluon.parameter import ParameterDict
from mx_gluon.rnn.cell import State

_LAYOUTS = {1: ("NCW",), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class ConvCell(GatedCell):
    """Base of cells whose states have channels and the extents of the convolved input.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    input_shape : sequence of int
        Of a step without the batch, as `conv_layout` says: (C, W) for NCW. A channel count of 0 is found out.
    hidden_channels : int
        Channels of the state.
    i2h_kernel, h2h_kernel : int or sequence of int
        Extents of the convolutions of input and state; that of the state is odd, since its extents stay.
    i2h_pad, i2h_dilate, h2h_dilate : int or sequence of int
        Zeros around the input, and steps between elements of the kernels.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        Of the weights of input and state, and of their biases.
    conv_layout : str, optional
        `NCW`, `NCHW` or `NCDHW` by default; `NHWC` and `NDHWC` have the channels at the end.
    activation : str, Block or callable
    prefix, params : as in `Block`

    Raises
    ------
    RefusedError  an even `h2h_kernel`, another number of extents, another layout, or a kernel beyond the input

    Source: Shi et al., Convolutional LSTM Network, NeurIPS 2015.
    """

    _dims: ClassVar[int]
    _gates: ClassVar[int]
    _states: ClassVar[int] = 1

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Extent,
        h2h_kernel: Extent,
        i2h_pad: Extent = 0,
        i2h_dilate: Extent = 1,
        h2h_dilate: Extent = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        what = type(self).__name__
        self._conv_layout = conv_layout or _LAYOUTS[self._dims][0]
        check_layout(self._conv_layout, _LAYOUTS[self._dims], f"[{what}]")
        if len(input_shape) != self._dims + 1:
            raise RefusedError(
                f"[{what}] input_shape: expected {self._dims + 1} sizes, {self._conv_layout[1:]}, got {input_shape}"
            )
        self._channel_axis = self._conv_layout.index("C")
        self._hidden_channels = hidden_channels
        self._input_shape = tuple(input_shape)
        self._activation = activation
        spatial = {
            name: extent(given, self._dims, f"[{what}] {name}")
            for name, given in {
                "i2h_kernel": i2h_kernel, "h2h_kernel": h2h_kernel, "i2h_pad": i2h_pad, "i2h_dilate": i2h_dilate,
                "h2h_dilate": h2h_dilate,
            }.items()
        }  # fmt: skip
        kernel, dilate = spatial["h2h_kernel"], spatial["h2h_dilate"]
        if any(size % 2 == 0 for size in kernel):
            raise RefusedError(f"[{what}] h2h_kernel: expected odd numbers, got {h2h_kernel}")
        spatial["h2h_pad"] = tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilate, strict=True))
        self._spatial = spatial
        if any(size and found < 1 for size, found in self._extents()):
            raise RefusedError(
                f"[{what}] i2h_kernel: expected one that fits in input_shape {self._input_shape}, got {i2h_kernel}"
            )
        rows = self._gates * hidden_channels
        channels = self._input_shape[self._channel_axis - 1]
        self.i2h_weight = self._parameter(
            "i2h_weight", (rows, *self._arranged(channels, spatial["i2h_kernel"])), i2h_weight_initializer
        )
        self.h2h_weight = self._parameter(
            "h2h_weight", (rows, *self._arranged(hidden_channels, kernel)), h2h_weight_initializer
        )
        self.i2h_bias = self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._parameter("h2h_bias", (rows,), h2h_bias_initializer)

    def _arranged(self, channels: int, extents: Sequence[int]) -> tuple[int, ...]:
        """Channels and extents in the order of the layout."""
        return (channels, *extents) if self._channel_axis == 1 else (*extents, channels)

    def _extents(self) -> list[tuple[int, int]]:
        """Extents of the input, and those of the convolved one; 0 is unknown."""
        sizes = self._input_shape[1:] if self._channel_axis == 1 else self._input_shape[:-1]
        windows = (self._spatial[f"i2h_{name}"] for name in ("kernel", "pad", "dilate"))
        return [
            (size, size + 2 * pad - dilate * (kernel - 1) if size else 0)
            for size, kernel, pad, dilate in zip(sizes, *windows, strict=True)
        ]

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shape and layout of every state; a batch size of 0 is unknown."""
        shape = (batch_size, *self._arranged(self._hidden_channels, [found for _, found in self._extents()]))
        return [{"shape": shape, "__layout__": self._conv_layout} for _ in range(self._states)]

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or (self._gates * self._hidden_channels, 0, 0)
        channels = shape[1 if self._channel_axis == 1 else -1]
        return f"{type(self).__name__}({channels or None} -> {shape[0]}, {self._activation}, {self._conv_layout})"

    def _products(self, F: Any, t: str, inputs: Any, state: Any, weights: dict[str, Any]) -> tuple[Any, ...]:
        """Convolutions of input and state, with gates · hidden_channels channels."""
        return tuple(
            F.Convolution(
                data=data,
                weight=weights[f"{name}_weight"],
                bias=weights[f"{name}_bias"],
                num_filter=self._gates * self._hidden_channels,
                kernel=self._spatial[f"{name}_kernel"],
                stride=(1,) * self._dims,
                pad=self._spatial[f"{name}_pad"],
                dilate=self._spatial[f"{name}_dilate"],
                layout=self._conv_layout,
                name=t + name,
            )
            for name, data in (("i2h", inputs), ("h2h", state))
        )


class _ConvRNNCell(ConvCell):
    _gates = 1

    def _alias(self) -> str:
        return "conv_rnn"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        (states,), t = args, f"t{self._counter}_"
        i2h, h2h = self._products(F, t, x, states[0], kwargs)
        output = self._get_activation(F, i2h + h2h, self._activation, name=t + "out")
        return output, [output]


class _ConvLSTMCell(ConvCell):
    _gates, _states = 4, 2

    def _alias(self) -> str:
        return "conv_lstm"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        ((hidden, memory),), t = args, f"t{self._counter}_"
        i2h, h2h = self._products(F, t, x, hidden, kwargs)
        shown, memory = self._remembered(F, t, i2h + h2h, memory)
        active = self._get_activation(F, memory, self._activation)
        hidden = F.elemwise_mul(shown, active, name=t + "out")
        return hidden, [hidden, memory]


class _ConvGRUCell(ConvCell):
    _gates = 3

    def _alias(self) -> str:
        return "conv_gru"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        (states,), t = args, f"t{self._counter}_"
        i2h, h2h = self._products(F, t, x, states[0], kwargs)
        hidden = self._updated(F, t, i2h, h2h, states[0])
        return hidden, [hidden]


class Conv1DRNNCell(_ConvRNNCell):
    """The plain cell, of signals; parameters as of `ConvCell`."""

    _dims = 1


class Conv2DRNNCell(_ConvRNNCell):
    """The plain cell, of images; parameters as of `ConvCell`."""

    _dims = 2


class Conv3DRNNCell(_ConvRNNCell):
    """The plain cell, of volumes; parameters as of `ConvCell`."""

    _dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """Long short-term memory of signals; parameters as of `ConvCell`."""

    _dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """Long short-term memory of images; parameters as of `ConvCell`."""

    _dims = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """Long short-term memory of volumes; parameters as of `ConvCell`."""

    _dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """Gated recurrent unit of signals; parameters as of `ConvCell`."""

    _dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """Gated recurrent unit of images; parameters as of `ConvCell`."""

    _dims = 2


class Conv3DGRUCell(_ConvGRUCell):
    """Gated recurrent unit of volumes; parameters as of `ConvCell`."""

    _dims = 3
