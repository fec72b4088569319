# SPDX-License-Identifier: Apache-2.0
"""The cells proper: plain, long short-term memory, gated recurrent unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.initializer import LSTMBias
from mx_train.rnn.cell import BaseRNNCell, RNNParams


class _Linear(BaseRNNCell):
    """A cell that begins with two products: of the input and of the state."""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._of = {
            "i2h": (self.params.get("i2h_weight"), self.params.get("i2h_bias", **bias)),
            "h2h": (self.params.get("h2h_weight"), self.params.get("h2h_bias")),
        }
        self._own_params = params is None  # asking for one's own is no sharing

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """One state (batch, num_hidden)."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _product(self, group: str, values: Symbol, name: str) -> Symbol:
        weight, bias = self._of[group]
        result: Symbol = sym.FullyConnected(
            data=values,
            weight=weight,
            bias=bias,
            num_hidden=self._num_hidden * len(self._gate_names),
            name=name,
        )
        return result

    def _step_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


class RNNCell(_Linear):
    """h' = activation(W x + b + V h + c).

    Parameters
    ----------
    num_hidden : int
        Units.
    activation : str or callable
        As of `Activation`, or a function of a symbol.
    prefix, params
        As of `BaseRNNCell`.
    """

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return ("",)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step; the output is the state."""
        name = self._step_name()
        of_input = self._product("i2h", inputs, f"{name}i2h")
        of_state = self._product("h2h", states[0], f"{name}h2h")
        output = self._activated(of_input + of_state, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_Linear):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with forget gates (Gers et al., 2000).

    Parameters
    ----------
    num_hidden : int
        Units.
    prefix, params
        As of `BaseRNNCell`.
    forget_bias : float
        What the bias of the forget gates starts with; above 0 it remembers at first.
    """

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(num_hidden, prefix, params, init=LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Two states (batch, num_hidden): the output and the memory."""
        return super().state_info * 2

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step; the output is the first state."""
        name = self._step_name()
        of_input = self._product("i2h", inputs, f"{name}i2h")
        of_state = self._product("h2h", states[0], f"{name}h2h")
        parts = sym.SliceChannel(of_input + of_state, num_outputs=4, name=f"{name}slice")
        enters, stays, new, leaves = (
            sym.Activation(part, act_type="tanh" if gate == "c" else "sigmoid", name=name + gate)
            for part, gate in zip(parts, "ifco", strict=True)
        )
        memory = sym.elemwise_add(stays * states[1], enters * new, name=f"{name}state")
        output = sym.elemwise_mul(leaves, sym.Activation(memory, act_type="tanh"), name=f"{name}out")
        return output, [output, memory]


class GRUCell(_Linear):
    """Gated recurrent unit (Cho et al., 2014), with the reset gate behind the product, as cuDNN has it.

    Parameters
    ----------
    num_hidden : int
        Units.
    prefix, params
        As of `BaseRNNCell`.
    """

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return ("_r", "_z", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step; the output is the state."""
        name = self._step_name()
        of_input = self._product("i2h", inputs, f"{name}_i2h")
        of_state = self._product("h2h", states[0], f"{name}_h2h")
        x = list(sym.SliceChannel(of_input, num_outputs=3, name=f"{name}_i2h_slice"))
        h = list(sym.SliceChannel(of_state, num_outputs=3, name=f"{name}_h2h_slice"))
        reset = sym.Activation(x[0] + h[0], act_type="sigmoid", name=f"{name}_r_act")
        update = sym.Activation(x[1] + h[1], act_type="sigmoid", name=f"{name}_z_act")
        new = sym.Activation(x[2] + reset * h[2], act_type="tanh", name=f"{name}_h_act")
        output = sym.elemwise_add((1.0 - update) * new, update * states[0], name=f"{name}out")
        return output, [output]
