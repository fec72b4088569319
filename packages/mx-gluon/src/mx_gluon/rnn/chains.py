# SPDX-License-Identifier: Apache-2.0
"""Cells one above the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mx_gluon.block import Block
from mx_gluon.errors import RefusedError
from mx_gluon.rnn.bidirectional import BidirectionalCell
from mx_gluon.rnn.cell import HybridRecurrentCell, RecurrentCell, State

_LINE, _INDENTED = "\n", "\n  "


def states_of(cells: Iterable[Any], states: Sequence[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Each cell with its part of all states."""
    begin = 0
    for cell in cells:
        end = begin + len(cell.state_info())
        yield cell, states[begin:end]
        begin = end


class _Chain(RecurrentCell):
    """What the chains share: states of all cells after each other, steps and unrolling cell by cell."""

    def add(self, cell: Any) -> None:
        """Adds a cell above the others."""
        self.register_child(cell)

    def __repr__(self) -> str:
        rows = [f"({i}): {repr(cell).replace(_LINE, _INDENTED)}" for i, cell in self._children.items()]
        return _LINE.join([f"{type(self).__name__}(", *rows, ")"])

    def __getitem__(self, i: int) -> Block:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shapes and layouts of the states of all cells."""
        return [info for cell in self._cells() for info in cell.state_info(batch_size)]

    def begin_state(self, batch_size: int = 0, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """As of `RecurrentCell`, of all cells."""
        self._refuse_if_modified()
        return [state for cell in self._cells() for state in cell.begin_state(batch_size, **kwargs)]

    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def __call__(self, inputs: Any, states: Sequence[Any]) -> Any:
        """One step of each cell, the first reading the inputs."""
        self._counter += 1
        after: list[Any] = []
        for cell, own in states_of(self._cells(), states):
            if isinstance(cell, BidirectionalCell):
                raise RefusedError(
                    f"[{self.name}] {cell!r} reads whole sequences and makes no steps: call unroll"
                )
            inputs, new = cell(inputs, list(own))
            after += new
        return inputs, after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of `RecurrentCell`: all steps of a cell, then all of the next."""
        self.reset()
        begin = self._begin(begin_state, inputs, layout)
        after: list[Any] = []
        last = len(self._children) - 1
        for i, (cell, states) in enumerate(states_of(self._cells(), begin)):
            inputs, new = cell.unroll(
                length, inputs, states, layout, None if i < last else merge_outputs, valid_length
            )
            after += new
        return inputs, after


class SequentialRNNCell(_Chain):
    """Cells one above the other: each reads what the one below puts out.

    Threads: one at a time; it counts steps.

    Examples
    --------
    >>> stack = SequentialRNNCell()
    >>> with stack.name_scope():
    ...     stack.add(LSTMCell(20))
    ...     stack.add(LSTMCell(10))
    """


class HybridSequentialRNNCell(_Chain, HybridRecurrentCell):
    """As `SequentialRNNCell`, of hybrid cells.

    Threads: one at a time; it counts steps.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        return self(x, *args)
