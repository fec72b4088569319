# SPDX-License-Identifier: Apache-2.0
"""All layers, directions and steps in one operator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.initializer import FusedRNN
from mx_train.initializer.recurrent import GATES
from mx_train.rnn.basic import GRUCell, LSTMCell, RNNCell
from mx_train.rnn.cell import BaseRNNCell, RNNParams, Weights
from mx_train.rnn.combined import BidirectionalCell, SequentialRNNCell
from mx_train.rnn.dropout import DropoutCell
from mx_train.rnn.sequence import Steps, arranged, one_symbol, time_axis


class FusedRNNCell(BaseRNNCell):
    """The operator `RNN` as a cell: for `unroll` only, and the fastest. Its weights are one array. The layout
    TNC saves two transpositions.

    Parameters
    ----------
    num_hidden : int
        Units of each layer and direction.
    num_layers : int
    mode : str
        `rnn_relu`, `rnn_tanh`, `lstm` or `gru`.
    bidirectional : bool
    dropout : float
        Share of what is dropped between layers.
    get_next_state : bool
        Whether `unroll` gives states; otherwise it gives none.
    forget_bias : float
        As of `LSTMCell`.
    prefix : str, optional
        By default the mode and an underscore.
    params : RNNParams, optional
        As of `BaseRNNCell`.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        if mode not in GATES:
            raise ArgumentError(f"[FusedRNNCell] mode: expected one of {', '.join(GATES)}, got {mode!r}")
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout = bidirectional, dropout
        self._get_next_state, self._forget_bias = get_next_state, forget_bias
        self._directions = ("l", "r") if bidirectional else ("l",)
        starts = FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self._params.get("parameters", init=starts)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """(layers × directions, batch, num_hidden), twice for an LSTM."""
        shape = (self._num_layers * len(self._directions), 0, self._num_hidden)
        n = 2 if self._mode == "lstm" else 1
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(n)]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return GATES[self._mode]

    def _parts(self, input_size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of what the array of parameters consists of, in order."""
        h = self._num_hidden
        places = [(layer, way) for layer in range(self._num_layers) for way in self._directions]
        for layer, way in places:
            before = input_size if layer == 0 else h * len(self._directions)
            for group, columns in (("i2h", before), ("h2h", h)):
                for gate in self._gate_names:
                    yield f"{self._prefix}{way}{layer}_{group}{gate}_weight", (h, columns)
        for layer, way in places:
            for group in ("i2h", "h2h"):
                for gate in self._gate_names:
                    yield f"{self._prefix}{way}{layer}_{group}{gate}_bias", (h,)

    def _input_size(self, n_elements: int) -> int:
        h, d = self._num_hidden, len(self._directions)
        rows = h * d * len(self._gate_names)  # of all weights of a layer together
        columns, rest = divmod(n_elements, rows)
        size = columns - (self._num_layers - 1) * (h + d * h + 2) - h - 2
        if rest or size < 1:
            raise ArgumentError(
                f"[FusedRNNCell] {self._parameter.name!r}: {n_elements} elements are no parameters of "
                f"{self._num_layers} layers of {self._mode} with {h} units"
            )
        return size

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """The arguments with a weight and a bias per gate, layer and direction, as `unfuse()` has them."""
        found = dict(args)
        packed = found.pop(f"{self._prefix}parameters")
        begin = 0
        for name, shape in self._parts(self._input_size(packed.size)):
            end = begin + int(np.prod(shape))
            found[name] = packed[begin:end].reshape(shape).copy()
            begin = end
        return found

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """The arguments with one array of parameters again."""
        found = dict(args)
        size = found[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        parts = [found.pop(name).reshape((-1,)) for name, _ in self._parts(size)]
        found[f"{self._prefix}parameters"] = nd.concat(*parts, dim=0)
        return found

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """There is no single step."""
        raise NotImplementedError("[FusedRNNCell] needs the whole sequence: use unroll, or unfuse() it")

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        axis = time_axis(layout)
        data = one_symbol(length, inputs, layout)
        if axis == 1:
            warnings.warn("[FusedRNNCell] layout NTC is transposed; TNC is faster", stacklevel=3)
            data = sym.swapaxes(data, dim1=0, dim2=1)
        named = dict(zip(("state", "state_cell"), states, strict=False))
        made = sym.RNN(
            data=data, parameters=self._parameter, state_size=self._num_hidden, num_layers=self._num_layers,
            bidirectional=self._bidirectional, p=self._dropout, state_outputs=self._get_next_state,
            mode=self._mode, name=f"{self._prefix}rnn", **named,
        )  # fmt: skip
        outputs, after = made, []
        if self._get_next_state:
            outputs, *after = made
            for state in after:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = sym.swapaxes(outputs, dim1=0, dim2=1)
        return arranged(length, outputs, layout, merge), after

    def unfuse(self) -> SequentialRNNCell:
        """The same network of cells that take single steps; `unpack_weights` of this one and `pack_weights`
        of that one bring weights over."""
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [self._single(f"{self._prefix}{way}{layer}_") for way in self._directions]
            if self._bidirectional:
                forth, back = cells
                stack.add(BidirectionalCell(forth, back, output_prefix=f"{self._prefix}bi_l{layer}_"))
            else:
                stack.add(cells[0])
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    def _single(self, prefix: str) -> BaseRNNCell:
        if self._mode == "lstm":
            return LSTMCell(self._num_hidden, prefix=prefix, forget_bias=self._forget_bias)
        if self._mode == "gru":
            return GRUCell(self._num_hidden, prefix=prefix)
        return RNNCell(self._num_hidden, activation=self._mode.removeprefix("rnn_"), prefix=prefix)
