# SPDX-License-Identifier: Apache-2.0
"""Initializers of recurrent layers."""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train.initializer.fill import Uniform
from mx_train.initializer.initializer import InitDesc, Initializer, create


class LSTMBias(Initializer):
    """0, but forget_bias for the forget gate's quarter."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        values = np.zeros(arr.shape, np.float32)
        quarter = arr.shape[0] // 4
        values[quarter : 2 * quarter] = self.forget_bias
        arr[:] = nd.array(values)


#: endings of the names of the gates' parameters, in the order of the array of all parameters
GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


class FusedRNN(Initializer):
    """The one array of parameters of `RNN`: weights and biases of each gate by an initializer of their own names.

    Parameters
    ----------
    init : Initializer or str, optional
        For the weights; by default the one that fills everything else.
    num_hidden, num_layers, mode, bidirectional
        As of the operator.
    forget_bias : float
        Both biases of the forget gates of an LSTM, which are added.
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        if mode not in GATES:
            raise ArgumentError(f"[FusedRNN] mode: expected one of {', '.join(GATES)}, got {mode!r}")
        self._weights = create(init) if isinstance(init, str) else init
        super().__init__(
            init=None if self._weights is None else self._weights.dumps(), num_hidden=num_hidden,
            num_layers=num_layers, mode=mode, bidirectional=bidirectional, forget_bias=forget_bias,
        )  # fmt: skip
        self._hidden, self._layers, self._mode = num_hidden, num_layers, mode
        self._directions, self._forget_bias = (2 if bidirectional else 1), forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        gates, h, d = GATES[self._mode], self._hidden, self._directions
        rows = len(gates) * h
        inner = (self._layers - 1) * d * rows * (d * h + h)
        biases = self._layers * d * 2 * rows
        size, rest = divmod(arr.size - biases - inner - d * rows * h, d * rows)
        if rest or size < 1:
            raise ArgumentError(
                f"[FusedRNN] {name!r}: {arr.size} elements are no parameters of {self._layers} layers of "
                f"{self._mode} with {h} units"
            )
        asked = getattr(name, "global_init", None)
        filler = self._weights or (Uniform(0.07) if asked is None or asked is self else asked)
        places = [(layer, way) for layer in range(self._layers) for way in "lr"[:d]]
        parts: list[NDArray] = []

        def fill(part: str, shape: tuple[int, ...]) -> None:
            values = nd.zeros(shape, ctx=arr.context)
            filler(InitDesc(part, global_init=asked), values)
            if self._mode == "lstm" and part.endswith("_f_bias"):
                values[:] = self._forget_bias
            parts.append(values.reshape((-1,)))

        for layer, way in places:
            for group, columns in (("i2h", size if layer == 0 else d * h), ("h2h", h)):
                for gate in gates:
                    fill(f"{way}{layer}_{group}{gate}_weight", (h, columns))
        for layer, way in places:
            for group in ("i2h", "h2h"):
                for gate in gates:
                    fill(f"{way}{layer}_{group}{gate}_bias", (h,))
        arr[:] = nd.concat(*parts, dim=0).reshape(arr.shape)

    def _by_name(self, name: str, arr: NDArray) -> str:
        self._init_weight(name, arr)
        return "weight"
