# SPDX-License-Identifier: Apache-2.0
"""Cells that change what another cell does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core.errors import MXNetError
from mx_ndarray import NDArray
from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.rnn.cell import BaseRNNCell, RNNParams, Weights
from mx_train.rnn.combined import refuse_bidirectional
from mx_train.rnn.fused import FusedRNNCell
from mx_train.rnn.sequence import Steps, arranged


class ModifierCell(BaseRNNCell):
    """Base of cells that wrap another one: parameters, states and weights are that one's.

    Parameters
    ----------
    base_cell : BaseRNNCell
        From now on the modifier makes its states.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        base_cell._modified = True
        super().__init__()
        self.base_cell = base_cell
        self._cells = [base_cell]

    @property
    def params(self) -> RNNParams:
        """Those of the wrapped cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Those of the wrapped cell."""
        return self.base_cell.state_info

    def begin_state(
        self,
        func: Callable[..., Symbol] = sym.zeros,
        *,
        init_sym: Callable[..., Symbol] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Those of the wrapped cell; `init_sym` is another name of `func`."""
        self._refuse_if_modified()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func if init_sym is None else init_sym, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """See `BaseRNNCell.unpack_weights`."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """See `BaseRNNCell.pack_weights`."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps random outputs and states of the step before (Krueger et al., Zoneout, 2016).

    Parameters
    ----------
    base_cell : BaseRNNCell
    zoneout_outputs, zoneout_states : float
        Share of what stays.
    """

    def __init__(
        self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        if isinstance(base_cell, FusedRNNCell):
            raise MXNetError("[ZoneoutCell] a FusedRNNCell has no single steps: unfuse() it first")
        refuse_bidirectional(base_cell, "ZoneoutCell")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states

    def reset(self) -> None:
        """Begins anew, with outputs of 0."""
        super().reset()
        self._before: Symbol | None = None

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step of the wrapped cell, of which some is not taken over."""
        output, new = self.base_cell(inputs, states)
        before = sym.zeros((0, 0)) if self._before is None else self._before
        output = _mixed(self.zoneout_outputs, output, before)
        after = [_mixed(self.zoneout_states, a, b) for a, b in zip(new, states, strict=True)]
        self._before = output
        return output, after


def _mixed(share: float, new: Symbol, old: Symbol) -> Symbol:
    """`old` in so many places, `new` in the others."""
    if share == 0:
        return new
    kept: Symbol = sym.where(sym.Dropout(sym.ones_like(new), p=share), new, old)
    return kept


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al., Google's Neural Machine Translation System, 2016)."""

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step of the wrapped cell, and the sum."""
        output, after = self.base_cell(inputs, states)
        return _sum(output, inputs), after

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        outputs, after = self.base_cell.unroll(length, inputs, states, layout, merge)
        given = arranged(length, inputs, layout, isinstance(outputs, Symbol))
        if isinstance(outputs, Symbol):
            return _sum(outputs, given), after
        return [_sum(a, b) for a, b in zip(outputs, given, strict=True)], after


def _sum(output: Symbol, inputs: Symbol) -> Symbol:
    result: Symbol = sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
    return result
