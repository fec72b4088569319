# SPDX-License-Identifier: Apache-2.0
"""Two cells, of which one reads from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_gluon.rnn.cell import HybridRecurrentCell, State
from mx_gluon.rnn.sequences import arranged, backwards, is_whole, library, masked, steps, whole


class BidirectionalCell(HybridRecurrentCell):
    """Reads sequences in both directions, and puts the outputs beside each other.

    Source: Schuster and Paliwal, Bidirectional Recurrent Neural Networks, 1997.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    l_cell, r_cell : RecurrentCell
        For the order of the input, and for the other one.
    output_prefix : str
        What the names of outputs begin with.
    """

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:
        """Is impossible: it reads whole sequences."""
        raise NotImplementedError(f"[{self.name}] Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        forward, backward = self._children.values()
        return f"{type(self).__name__}(forward={forward}, backward={backward})"

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shapes and layouts of the states of both cells."""
        cells: Any = self._children.values()
        return [info for cell in cells for info in cell.state_info(batch_size)]

    def begin_state(self, batch_size: int = 0, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """As of `RecurrentCell`, of both cells."""
        self._refuse_if_modified()
        cells: Any = self._children.values()
        return [state for cell in cells for state in cell.begin_state(batch_size, **kwargs)]

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of `RecurrentCell`; the second cell begins at the end of each sequence."""
        self.reset()
        each = steps(length, inputs, layout)
        states = self._begin(begin_state, each, layout)
        forward, backward = cells = list[Any](self._children.values())
        own = len(cells[0].state_info())
        there, states_there = forward.unroll(length, each, states[:own], layout, merge_outputs, valid_length)
        back, states_back = backward.unroll(
            length, backwards(each, valid_length), states[own:], layout, False, valid_length
        )
        turned: Any = backwards(back, valid_length)
        merge = is_whole(there) if merge_outputs is None else merge_outputs
        there, turned = (arranged(length, part, layout, merge) for part in (there, turned))
        F = library(there)
        outputs: Any
        if merge:
            outputs = F.concat(there, whole(turned, layout), dim=2, name=f"{self._output_prefix}out")
        else:
            outputs = [
                F.concat(a, b, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (a, b) in enumerate(zip(there, turned, strict=True))
            ]
        if valid_length is not None:
            outputs = masked(outputs, length, valid_length, layout, merge)
        return outputs, [*states_there, *states_back]
