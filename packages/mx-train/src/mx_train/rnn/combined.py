# SPDX-License-Identifier: Apache-2.0
"""Cells made of cells: one above the other, and one in each direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import MXNetError
from mx_ndarray import NDArray
from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.rnn.cell import BaseRNNCell, RNNParams, Weights, take_own_params
from mx_train.rnn.sequence import Steps, arranged, one_per_step, time_axis


class _Combined(BaseRNNCell):
    """States and weights of all cells, in order."""

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Those of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Those of all cells; arguments as of `BaseRNNCell.begin_state`."""
        self._refuse_if_modified()
        return [state for cell in self._cells for state in cell.begin_state(*args, **kwargs)]

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """See `BaseRNNCell.unpack_weights`."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """See `BaseRNNCell.pack_weights`."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _shares(self, states: Sequence[Any]) -> list[list[Any]]:
        """The states of each cell."""
        rest = list(states)
        shares = []
        for cell in self._cells:
            n = len(cell.state_info)
            shares.append(rest[:n])
            rest = rest[n:]
        return shares


class SequentialRNNCell(_Combined):
    """Layers: the output of each cell is the input of the next.

    Parameters
    ----------
    params : RNNParams, optional
        Parameters shared by all of them.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__("", params)
        self._shared = params is not None

    def add(self, cell: BaseRNNCell) -> None:
        """Puts a cell on top."""
        take_own_params([cell], self._params, self._shared)
        self._cells.append(cell)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step through all layers."""
        self._counter += 1
        after: list[Symbol] = []
        for cell, own in zip(self._cells, self._shares(states), strict=True):
            inputs, new = cell(inputs, own)
            after += new
        return inputs, after

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        after: list[Any] = []
        for i, (cell, own) in enumerate(zip(self._cells, self._shares(states), strict=True)):
            last = i == len(self._cells) - 1
            inputs, new = cell.unroll(length, inputs, own, layout, merge if last else None)
            after += new
        return inputs, after


class BidirectionalCell(_Combined):
    """Two cells that read a sequence from both ends; their outputs are joined. For `unroll` only, whose
    states are two lists, one for each way.

    Parameters
    ----------
    l_cell, r_cell : BaseRNNCell
        For the way forward and the way back.
    params : RNNParams, optional
        Parameters shared by both.
    output_prefix : str
        What the names of the outputs begin with.
    """

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        super().__init__("", params)
        self._output_prefix = output_prefix
        take_own_params([l_cell, r_cell], self._params, params is not None)
        self._cells = [l_cell, r_cell]

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """There is no single step."""
        raise NotImplementedError("[BidirectionalCell] needs the whole sequence: use unroll")

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        steps = one_per_step(length, inputs, layout)
        ways = [
            cell.unroll(length, part, own, layout, merge)
            for cell, part, own in zip(self._cells, (steps, steps[::-1]), self._shares(states), strict=True)
        ]
        (forth, forth_states), (back, back_states) = ways
        if merge is None:
            merge = isinstance(forth, Symbol) and isinstance(back, Symbol)
        forth, back = (arranged(length, way, layout, merge) for way in (forth, back))
        after = [forth_states, back_states]
        if merge:
            flipped = sym.reverse(back, axis=time_axis(layout))
            return sym.Concat(forth, flipped, dim=2, name=f"{self._output_prefix}out"), after
        outputs = [
            sym.Concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (a, b) in enumerate(zip(forth, back[::-1], strict=True))
        ]
        return outputs, after


def refuse_bidirectional(cell: BaseRNNCell, what: str) -> None:
    """An error where a cell must be able to take single steps."""
    if isinstance(cell, BidirectionalCell):
        raise MXNetError(f"[{what}] a BidirectionalCell has no single steps: use it on the cells inside")
