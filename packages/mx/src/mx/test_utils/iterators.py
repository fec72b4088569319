# SPDX-License-Identifier: Apache-2.0
"""Iterators for measurements."""

from __future__ import annotations

from typing import Any

from mx_io.io import DataIter


class DummyIter(DataIter):
    """The first batch of an iterator, without end: a network's speed without that of its data.

    Parameters
    ----------
    real_iter : DataIter
    """

    def __init__(self, real_iter: Any) -> None:
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.the_batch = next(real_iter)

    @property
    def provide_data(self) -> Any:
        """As the iterator's."""
        return self.real_iter.provide_data

    @property
    def provide_label(self) -> Any:
        """As the iterator's."""
        return self.real_iter.provide_label

    def next(self) -> Any:
        """The batch."""
        return self.the_batch
