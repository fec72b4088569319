# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.io`: a data loader of Gluon as an iterator of a Module."""

from __future__ import annotations

import sys as _sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from mx.absent import explain as _explain
from mx_core.errors import ArgumentError
from mx_gluon.data import DataLoader
from mx_io.io import DataDesc, DataIter
from mx_ndarray import NDArray, nd

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Batches of a loader whose samples are pairs of data and label, for `Module.fit`.

    A last batch that is smaller is filled up with zeros; `getpad` says how many examples these are.

    Threads: one at a time.

    Parameters
    ----------
    loader : DataLoader
        Its first batch is read to learn the shapes.
    data_name, label_name : str
        Names of the inputs of the network.
    dtype : dtype
        Of the batches.

    Raises
    ------
    ArgumentError  the loader gives anything but pairs, or nothing
    """

    def __init__(
        self,
        loader: DataLoader,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self._loader = loader
        self._iter: Iterator[Any] = iter(loader)
        self.dtype = dtype
        data, label = self._pair(next(self._iter, None))
        self.batch_size = data.shape[0]
        kind = np.dtype(dtype).type if dtype != "bfloat16" else dtype
        self.provide_data = [DataDesc(data_name, data.shape, kind)]
        self.provide_label = [DataDesc(label_name, label.shape, kind)]
        self._current: tuple[NDArray, NDArray] | None = None
        self.reset()

    @staticmethod
    def _pair(batch: Any) -> tuple[NDArray, NDArray]:
        if not isinstance(batch, (list, tuple)) or len(batch) != 2:
            got = (
                "no batch"
                if batch is None
                else f"{len(batch)} arrays"
                if isinstance(batch, list)
                else type(batch)
            )
            raise ArgumentError(f"[DataLoaderIter] loader: expected batches of data and label, got {got}")
        return batch[0], batch[1]

    def reset(self) -> None:
        """Begins an epoch."""
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        """Goes to the next batch; False at the end of the epoch."""
        batch = next(self._iter, None)
        self._current = None if batch is None else self._pair(batch)
        return batch is not None

    def _full(self, array: NDArray) -> NDArray:
        array = array.astype(self.dtype)
        missing = self.batch_size - array.shape[0]
        if missing <= 0:
            return array
        rest = nd.zeros((missing, *array.shape[1:]), dtype=self.dtype, ctx=array.context)
        filled: NDArray = nd.concat(array, rest, dim=0)
        return filled

    def getdata(self) -> list[NDArray]:
        """The data of the present batch."""
        assert self._current is not None
        return [self._full(self._current[0])]

    def getlabel(self) -> list[NDArray]:
        """Its labels."""
        assert self._current is not None
        return [self._full(self._current[1])]

    def getpad(self) -> int:
        """How many examples at its end only fill it up."""
        assert self._current is not None
        return self.batch_size - self._current[0].shape[0]

    def getindex(self) -> None:
        """None: a loader does not say which examples a batch has."""
        return


_explain(_sys.modules[__name__], [__name__])
