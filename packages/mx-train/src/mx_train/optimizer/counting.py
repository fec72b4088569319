# SPDX-License-Identifier: Apache-2.0
"""What an optimizer counts and remembers by index, while an update may fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer


class counted_if_done:
    """A block whose updates do not count if it raises: for want of memory, say, so that the step can be taken again.

    Threads: one at a time, as its optimizer.

    Parameters
    ----------
    indices : sequence
        Of the weights that the block updates.
    """

    __slots__ = ("_before", "_indices", "_num_update", "_optimizer")

    def __init__(self, optimizer: Optimizer, indices: Sequence[Index]) -> None:
        self._optimizer = optimizer
        self._indices = indices
        self._num_update = optimizer.num_update
        self._before = [list(map(table.get, indices)) for table in self._tables()]

    def _tables(self) -> list[dict[Index, Any]]:
        names = ("_index_update_count", *self._optimizer._remembered)
        return [getattr(self._optimizer, name) for name in names]

    def __enter__(self) -> None:
        """Nothing is left to do."""

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self.undo()

    def undo(self) -> None:
        """Takes back what was counted since it was made."""
        self._optimizer.num_update = self._num_update
        for values, table in zip(self._before, self._tables(), strict=True):
            for index, value in zip(self._indices, values, strict=True):
                if value is None:
                    table.pop(index, None)
                else:
                    table[index] = value
