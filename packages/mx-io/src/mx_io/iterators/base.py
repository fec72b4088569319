# SPDX-License-Identifier: Apache-2.0
"""The base class of data iterators, batches and their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from mx_ndarray import NDArray


class _NamedShape(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_NamedShape):
    """Name, shape, element type and layout of one input; it unpacks as a tuple (name, shape).

    Examples
    --------
    >>> name, shape = DataDesc("data", (32, 3, 28, 28))
    >>> DataDesc.get_batch_axis("TNC")
    1
    """

    dtype: Any
    layout: str | None

    def __new__(
        cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str | None = "NCHW"
    ) -> Self:
        made = super().__new__(cls, name, tuple(shape))
        made.dtype = dtype
        made.layout = layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Axis of the batch (`N`) in a layout; 0 without a layout, -1 if it has none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(
        shapes: Sequence[tuple[str, Sequence[int]]], types: Sequence[tuple[str, Any]] | None
    ) -> list[DataDesc]:
        """Descriptions from (name, shape) and (name, dtype) pairs."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch:
    """One batch.

    Threads: one at a time.

    Attributes
    ----------
    data, label : list of NDArray
    pad : int
        How many examples at the end of the batch fill it up and do not count.
    index : ndarray, optional
        Numbers of the examples.
    bucket_key : object, optional
        Which of several graphs the batch is for.
    provide_data, provide_label : list of DataDesc, optional
        Given when the shapes differ from batch to batch.
    """

    def __init__(
        self,
        data: Sequence[NDArray],
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Sequence[DataDesc] | None = None,
        provide_label: Sequence[DataDesc] | None = None,
    ) -> None:
        for name, value in (("data", data), ("label", label)):
            if value is not None and not isinstance(value, list | tuple):
                raise TypeError(
                    f"[DataBatch] {name}: expected a list of NDArrays, got {type(value).__name__}"
                )
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        shapes = [array.shape for array in self.data]
        labels = None if self.label is None else [array.shape for array in self.label]
        return f"{type(self).__name__}: data shapes: {shapes} label shapes: {labels}"


class DataIter:
    """Base of the iterators.

    A subclass gives `provide_data`, `provide_label` and either `next` alone, or `iter_next` with `getdata`,
    `getlabel`, `getindex` and `getpad`.

    Threads: one at a time; a batch may go to another.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Self:
        return self

    def reset(self) -> None:
        """Begin the next epoch."""

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end of the epoch."""
        if type(self).iter_next is DataIter.iter_next:
            raise NotImplementedError(f"{type(self).__name__} has neither next nor iter_next")
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata() or [], self.getlabel(), self.getpad(), self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool | None:
        """Go to the next batch; False at the end of the epoch, None unless a subclass says more."""
        return None

    def getdata(self) -> Sequence[NDArray] | None:
        """Inputs of the current batch; None unless a subclass says more."""
        return None

    def getlabel(self) -> Sequence[NDArray] | None:
        """Labels of the current batch."""
        return None

    def getindex(self) -> Any:
        """Numbers of the current batch's examples, if known."""
        return None

    def getpad(self) -> int | None:
        """Padding examples at the end of the current batch, if there may be any."""
        return None


class BatchIter(DataIter):
    """Base of iterators that make whole batches: `_make` gives one or raises StopIteration."""

    def __init__(self, batch_size: int = 0) -> None:
        super().__init__(batch_size)
        self._current: DataBatch | None = None

    def _make(self) -> DataBatch:
        raise NotImplementedError(f"{type(self).__name__}._make")

    def next(self) -> DataBatch:
        self._current = None
        self._current = self._make()
        return self._current

    def iter_next(self) -> bool:
        try:
            self.next()
        except StopIteration:
            return False
        return True

    def _batch(self) -> DataBatch:
        if self._current is None:
            raise RuntimeError(f"[{type(self).__name__}] expected iter_next() to have returned True before")
        return self._current

    def getdata(self) -> Sequence[NDArray]:
        return self._batch().data

    def getlabel(self) -> Sequence[NDArray] | None:
        return self._batch().label

    def getindex(self) -> Any:
        return self._batch().index

    def getpad(self) -> int | None:
        return self._batch().pad


class FileIter(BatchIter):
    """Base of the iterators over files, which have one input and one label: getters give the arrays themselves."""

    def getdata(self) -> NDArray:  # type: ignore[override]  # as MXNet's iterators over files
        return self._batch().data[0]

    def getlabel(self) -> NDArray | None:  # type: ignore[override]
        label = self._batch().label
        return label[0] if label else None
