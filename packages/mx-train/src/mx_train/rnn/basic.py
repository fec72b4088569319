# SPDX-License-Identifier: Apache-2.0
"""Cells whose products are those of matrices."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.initializer import LSTMBias
from mx_train.rnn.cell import RNNParams
from mx_train.rnn.gated import Gated, GatedUnit, LongShortTerm, Plain


class _Linear(Gated):
    _mark: ClassVar[str] = "_"

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._of = {
            "i2h": (self._params.get("i2h_weight"), self._params.get("i2h_bias", **bias)),
            "h2h": (self._params.get("h2h_weight"), self._params.get("h2h_bias")),
        }

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """One state (batch, num_hidden)."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _product(self, group: str, values: Symbol, name: str) -> Symbol:
        weight, bias = self._of[group]
        units = self._num_hidden * len(self._gate_names)
        result: Symbol = sym.FullyConnected(
            data=values, weight=weight, bias=bias, num_hidden=units, name=name
        )
        return result


class RNNCell(Plain, _Linear):
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


class LSTMCell(LongShortTerm, _Linear):
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


class GRUCell(GatedUnit, _Linear):
    """Gated recurrent unit (Cho et al., 2014), with the reset gate after the product, as cuDNN has it.

    Parameters
    ----------
    num_hidden : int
        Units.
    prefix, params
        As of `BaseRNNCell`.
    """

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)
