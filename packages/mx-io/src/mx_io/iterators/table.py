# SPDX-License-Identifier: Apache-2.0
"""Base of the iterators over files that are read whole into memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mx_io.arrays import to_ndarray
from mx_io.iterators.base import DataBatch, DataDesc, FileIter
from mx_io.iterators.order import ExampleOrder


class TableIter(FileIter):
    """Batches of `data` (examples, …) and `label` (examples, …), in the order that `order` plans."""

    def __init__(
        self,
        data: np.ndarray[Any, Any],
        label: np.ndarray[Any, Any],
        order: ExampleOrder,
        data_name: str,
        label_name: str,
    ) -> None:
        super().__init__(order.batch_size)
        self._data = data
        self._label = label
        self._order = order
        self._plans = order.epoch()
        shapes = [(order.batch_size, *array.shape[1:]) for array in (data, label)]
        self.provide_data = [DataDesc(data_name, shapes[0], data.dtype.type)]
        self.provide_label = [DataDesc(label_name, shapes[1], label.dtype.type)]

    def reset(self) -> None:
        """Begin the next epoch."""
        self._current = None
        self._plans = self._order.epoch()

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is: in an epoch, too."""
        return self._order.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where an iterator of the same data was when `state_dict` was called.

        Raises
        ------
        ArgumentError  the state is something else; nothing changes
        """
        self._plans = self._order.resumed(state, type(self).__name__)
        self._current = None

    def _make(self) -> DataBatch:
        plan = next(self._plans, None)
        if plan is None:
            self._order.ended()
            raise StopIteration
        self._order.consumed(plan)
        data, label = (self._filled(array[plan.examples]) for array in (self._data, self._label))
        return DataBatch([to_ndarray(data)], [to_ndarray(label)], plan.pad, plan.examples)

    def _filled(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        missing = self.batch_size - len(rows)
        if missing == 0:
            return rows
        return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)])
