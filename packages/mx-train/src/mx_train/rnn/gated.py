# SPDX-License-Identifier: Apache-2.0
"""The gates of recurrent cells: plain, long short-term memory, gated recurrent unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.rnn.cell import BaseRNNCell


class Gated(BaseRNNCell):
    """A cell that begins with two products: of the input and of the state."""

    _activation: Any = "tanh"
    #: what the names of a GRU's products begin with, after the step
    _mark: ClassVar[str] = ""

    def _product(self, group: str, values: Symbol, name: str) -> Symbol:
        """With the weight and bias of a group, `i2h` or `h2h`; as many features as all gates have."""
        raise NotImplementedError

    def _slices(self, values: Symbol, name: str) -> list[Symbol]:
        """A part for each gate."""
        return list(sym.SliceChannel(values, num_outputs=len(self._gate_names), name=name))

    def _step_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


class Plain(Gated):
    """h' = activation(W x + b + V h + c)."""

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


class LongShortTerm(Gated):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with forget gates (Gers et al., 2000)."""

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Two states: the output and the memory."""
        return super().state_info * 2

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step; the output is the first state."""
        name = self._step_name()
        of_input = self._product("i2h", inputs, f"{name}i2h")
        of_state = self._product("h2h", states[0], f"{name}h2h")
        parts = self._slices(of_input + of_state, f"{name}slice")
        enters, stays, new, leaves = (
            self._activated(part, self._activation if gate == "c" else "sigmoid", name=name + gate)
            for part, gate in zip(parts, "ifco", strict=True)
        )
        memory = sym.elemwise_add(stays * states[1], enters * new, name=f"{name}state")
        output = sym.elemwise_mul(leaves, self._activated(memory, self._activation), name=f"{name}out")
        return output, [output, memory]


class GatedUnit(Gated):
    """Gated recurrent unit (Cho et al., 2014), with the reset gate after the product, as cuDNN has it."""

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return ("_r", "_z", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step; the output is the state."""
        name = self._step_name()
        of_input = self._product("i2h", inputs, f"{name}{self._mark}i2h")
        of_state = self._product("h2h", states[0], f"{name}{self._mark}h2h")
        x, h = self._slices(of_input, f"{name}_i2h_slice"), self._slices(of_state, f"{name}_h2h_slice")
        reset = sym.Activation(x[0] + h[0], act_type="sigmoid", name=f"{name}_r_act")
        update = sym.Activation(x[1] + h[1], act_type="sigmoid", name=f"{name}_z_act")
        new = self._activated(x[2] + reset * h[2], self._activation, name=f"{name}_h_act")
        output = sym.elemwise_add((1.0 - update) * new, update * states[0], name=f"{name}out")
        return output, [output]
