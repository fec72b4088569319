# SPDX-License-Identifier: Apache-2.0
"""Cells that change what another one does, and dropout between cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_gluon.errors import RefusedError
from mx_gluon.parameter import ParameterDict
from mx_gluon.rnn.bidirectional import BidirectionalCell
from mx_gluon.rnn.cell import HybridRecurrentCell, State
from mx_gluon.rnn.sequences import arranged, is_whole, library, masked
from mx_symbol import sym
from mx_symbol.symbol import Symbol


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input; it has no state.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    rate : float
        Share of elements that are dropped.
    axes : tuple of int
        Along which all are dropped together.
    prefix, params : as in `Block`

    Raises
    ------
    RefusedError  the rate is no number
    """

    def __init__(
        self,
        rate: float,
        axes: Sequence[int] = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, (int, float)):
            raise RefusedError(f"[DropoutCell] rate must be a number, got {rate!r}")
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[State]:
        """None."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        if self._rate > 0:
            x = F.Dropout(data=x, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return x, args[0] if args else []

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of `RecurrentCell`; of one array all steps at once."""
        self.reset()
        inputs = arranged(length, inputs, layout, merge_outputs)
        if is_whole(inputs):
            outputs, states = self.hybrid_forward(library(inputs), inputs, list(begin_state or []))
            return outputs, list(states)
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(HybridRecurrentCell):
    """A cell around another one, whose parameters it has. The other one is not to be called any more.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    base_cell : RecurrentCell

    Raises
    ------
    RefusedError  another modifier wraps it
    """

    def __init__(self, base_cell: Any) -> None:
        if base_cell._modified:
            raise RefusedError(
                f"[{type(self).__name__}] Cell {base_cell.name} is already modified. One cell cannot be modified twice"
            )
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """Those of the cell within."""
        found: ParameterDict = self.base_cell.params
        return found

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Those of the cell within."""
        found: list[State] = self.base_cell.state_info(batch_size)
        return found

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = sym.zeros, **kwargs: Any
    ) -> list[Any]:
        """Those of the cell within."""
        self._refuse_if_modified()
        self.base_cell._modified = False
        try:
            begun: list[Any] = self.base_cell.begin_state(batch_size=batch_size, func=func, **kwargs)
        finally:
            self.base_cell._modified = True
        return begun

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class ZoneoutCell(ModifierCell):
    """Keeps random elements of outputs and states as they were before the step.

    Source: Krueger et al., Zoneout: Regularizing RNNs by Randomly Preserving Hidden Activations, ICLR 2017.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    base_cell : RecurrentCell
    zoneout_outputs, zoneout_states : float
        Shares of elements that are kept.

    Raises
    ------
    RefusedError  the cell reads in both directions
    """

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise RefusedError(
                "[ZoneoutCell] BidirectionalCell doesn't support zoneout since it doesn't support step: put it around "
                "the cells within"
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Begins anew: before the next output there are zeros."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        before = args[0]
        output, states = self.base_cell(x, before)

        def mixed(share: float, new: Any, old: Any) -> Any:
            chosen = F.Dropout(F.ones_like(new), p=share)
            return F.where(chosen, new, old)

        if self.zoneout_outputs != 0.0:
            last = self._prev_output
            if last is None or isinstance(last, Symbol) != (F is sym):  # of a graph that was made in between
                last = F.zeros_like(output)
            output = mixed(self.zoneout_outputs, output, last)
        if self.zoneout_states != 0.0:
            states = [mixed(self.zoneout_states, new, old) for new, old in zip(states, before, strict=True)]
        self._prev_output = output
        return output, states


class ResidualCell(ModifierCell):
    """Adds the input to the output.

    Source: Wu et al., Google's Neural Machine Translation System, 2016.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    base_cell : RecurrentCell
        With as many units as its input has features.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        output, states = self.base_cell(x, args[0])
        return F.elemwise_add(output, x, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of `RecurrentCell`."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs, valid_length
            )
        finally:
            self.base_cell._modified = True
        merge = is_whole(outputs) if merge_outputs is None else merge_outputs
        inputs = arranged(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = masked(inputs, length, valid_length, layout, merge)
        if merge:
            return library(outputs).elemwise_add(outputs, inputs), states
        return [library(a).elemwise_add(a, b) for a, b in zip(outputs, inputs, strict=True)], states
