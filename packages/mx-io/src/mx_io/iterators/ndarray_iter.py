# SPDX-License-Identifier: Apache-2.0
"""Batches from arrays in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, ShapeError
from mx_io.arrays import to_ndarray
from mx_io.iterators.base import DataDesc, DataIter
from mx_io.iterators.sources import named_sources, take
from mx_io.iterators.states import entry, whole_number

if TYPE_CHECKING:
    from mx_ndarray import NDArray


class NDArrayIter(DataIter):
    """Iterate over arrays in memory.

    Parameters
    ----------
    data : array, list of arrays, or dict of name to array
        The first axis counts the examples. NumPy arrays are converted to float32; NDArrays keep their type;
        datasets that can be sliced (h5py) are read batch by batch.
    label : like `data`, optional
        Of what has more examples than the first array of `data`, the first ones are used, with a warning.
    batch_size : int
    shuffle : bool
        Shuffle at construction and at each `reset`, with NumPy's global generator.
    last_batch_handle : {"pad", "discard", "roll_over"}
        What happens with a last batch that is not full. `"pad"` fills it with the first examples; `"discard"`
        drops it; `"roll_over"` keeps its examples for the first batch of the next epoch.
    data_name, label_name : str
        Names of arrays in `data` and `label` that are given without names.
    layout : str

    Notes
    -----
    The data are copied, datasets excepted, and so are batches: changing an array or a batch does not change the
    data. For one consuming thread.

    Examples
    --------
    >>> import numpy as np
    >>> batches = NDArrayIter(np.arange(10).reshape(5, 2), np.arange(5), batch_size=2)
    >>> [batch.pad for batch in batches]
    [0, 0, 1]
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ArgumentError(
                "[NDArrayIter] last_batch_handle: expected 'pad', 'discard' or 'roll_over', "
                f"got {last_batch_handle!r}"
            )
        if batch_size < 1:
            raise ArgumentError(f"[NDArrayIter] batch_size: expected at least 1, got {batch_size}")
        self._data = named_sources(data, False, data_name)
        self._label = named_sources(label, True, label_name)
        self.last_batch_handle = last_batch_handle
        self.shuffle = shuffle
        self.layout = layout
        self.num_source = len(self._data)
        self.num_data = self._count()
        self.idx: npt.NDArray[np.int64] = np.arange(self.num_data)
        self._rows = (
            self.idx.copy()
        )  # the examples in their present order, which each shuffle permutes further
        self._carried: npt.NDArray[np.int64] = self.idx[:0]
        self._order = self.idx
        self._begin_epoch()

    def _count(self) -> int:
        first, source = self._data[0]
        count = int(source.shape[0])
        for name, source in self._data + self._label:
            if source.shape[0] < count:
                raise ShapeError(
                    f"[NDArrayIter] {name}: expected {count} examples as {first} has, got {source.shape[0]}"
                )
            if source.shape[0] > count:
                warnings.warn(
                    f"[NDArrayIter] {name}: the first {count} of {source.shape[0]} examples are used, since {first} "
                    f"has {count}",
                    stacklevel=4,
                )
        if count == 0 or (self.last_batch_handle != "pad" and count < self.batch_size):
            raise ArgumentError(
                f"[NDArrayIter] batch_size: expected at most the number of examples, {count}, "
                f"got {self.batch_size}"
            )
        return count

    def _begin_epoch(self) -> None:
        if self.shuffle:
            np.random.shuffle(self.idx)
            self._rows = self._rows[self.idx]
        self._take_order()

    def _take_order(self) -> None:
        order = np.concatenate([self._carried, self._rows])
        if self.last_batch_handle == "discard":
            order = order[: len(order) // self.batch_size * self.batch_size]
        self._order = order
        self._first_pad = len(self._carried)
        self._carried = self.idx[:0]
        self.cursor = -self.batch_size

    @property
    def data(self) -> list[tuple[str, Any]]:
        """Name and array of each input: all examples in the present order, copied; data sets of files as they are.

        It can be set: to (name, array) pairs, or to what the constructor takes, of as many examples.
        """
        return [(name, self._whole(source)) for name, source in self._data]

    @data.setter
    def data(self, given: Any) -> None:
        self._data = self._replacement(given, False, "data")
        self.num_source = len(self._data)

    @property
    def label(self) -> list[tuple[str, Any]]:
        """Name and array of each label, as `data`."""
        return [(name, self._whole(source)) for name, source in self._label]

    @label.setter
    def label(self, given: Any) -> None:
        self._label = self._replacement(given, True, "softmax_label")

    @property
    def data_list(self) -> list[Any]:
        """The arrays of `data` and `label`."""
        return [array for _, array in self.data + self.label]

    def _replacement(self, given: Any, allow_empty: bool, name: str) -> list[tuple[str, Any]]:
        """Sources of arrays that have their examples in the present order."""
        if isinstance(given, list | tuple) and given and all(isinstance(pair, tuple) for pair in given):
            given = dict(given)
        sources = named_sources(given, allow_empty, name)
        for each, source in sources:
            if source.shape[0] != self.num_data:
                raise ShapeError(
                    f"[NDArrayIter] {each}: expected {self.num_data} examples as the iterator has, "
                    f"got {source.shape[0]}"
                )
        if np.array_equal(self._rows, np.arange(self.num_data)):
            return sources
        place = np.argsort(self._rows)
        return [(name, take(source, place)) for name, source in sources]

    def _whole(self, source: Any) -> Any:
        return to_ndarray(source[self._rows]) if isinstance(source, np.ndarray) else source

    @property
    def provide_data(self) -> list[DataDesc]:
        """Name, shape, type and layout of each input."""
        return [self._describe(name, source) for name, source in self._data]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Name, shape, type and layout of each label."""
        return [self._describe(name, source) for name, source in self._label]

    def _describe(self, name: str, source: Any) -> DataDesc:
        return DataDesc(name, (self.batch_size, *source.shape[1:]), np.dtype(source.dtype).type, self.layout)

    def reset(self) -> None:
        """Begin the next epoch, with the examples that rolled over first."""
        self._begin_epoch()

    def hard_reset(self) -> None:
        """Begin the next epoch without the examples that rolled over."""
        self._carried = self.idx[:0]
        self._begin_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is, in an epoch, too: arrays of numbers of examples, and batches that were given."""
        given = min(self.cursor // self.batch_size + 1, self._batches(len(self._order)))
        return {
            "batches": given,
            "idx": self.idx.copy(),
            "rows": self._rows.copy(),
            "carried": self._order[: self._first_pad].copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where an iterator of the same data was when `state_dict` was called.

        Raises
        ------
        ShapeError     it had another number of examples
        ArgumentError  the state is something else, or has numbers of examples that are not there
        """
        idx, rows, carried = (self._numbers(state, name) for name in ("idx", "rows", "carried"))
        batches = whole_number(state, "batches", "NDArrayIter") if "batches" in state else 0
        if batches > (most := self._batches(len(carried) + len(rows))):
            raise ArgumentError(
                f"[NDArrayIter] state: batches: expected at most the {most} of the epoch, got {batches}"
            )
        self.idx, self._rows, self._carried = idx, rows, carried
        self._take_order()
        self.cursor = (batches - 1) * self.batch_size

    def _batches(self, count: int) -> int:
        """Of an epoch of so many examples."""
        return -(-count // self.batch_size) if self.last_batch_handle == "pad" else count // self.batch_size

    def _numbers(self, state: Mapping[str, Any], name: str) -> npt.NDArray[np.int64]:
        """A copy of one array of a state."""
        try:
            given = np.asarray(entry(state, name, "NDArrayIter"))
        except ValueError as error:  # lists of several lengths
            raise ArgumentError(f"[NDArrayIter] state: {name}: expected whole numbers: {error}") from error
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ArgumentError(
                f"[NDArrayIter] state: {name}: expected a list of whole numbers, got {state[name]!r:.80}"
            )
        if name != "carried" and len(given) != self.num_data:
            raise ShapeError(
                f"[NDArrayIter] state: {name}: expected {self.num_data} examples, got {len(given)}"
            )
        if given.size and not (given.min() >= 0 and given.max() < self.num_data):
            raise ArgumentError(
                f"[NDArrayIter] state: {name}: expected numbers from 0 to {self.num_data - 1}, got {given.min()} to "
                f"{given.max()}"
            )
        return np.array(given, np.int64)

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        if self.cursor >= len(self._order):
            return False
        if self.last_batch_handle == "roll_over" and self.cursor + self.batch_size > len(self._order):
            self._carried = self._order[self.cursor :].copy()
            return False
        return True

    def _examples(self) -> npt.NDArray[np.int64]:
        if not 0 <= self.cursor < len(self._order):
            raise RuntimeError("[NDArrayIter] expected iter_next() to have returned True before")
        return np.take(self._order, np.arange(self.cursor, self.cursor + self.batch_size), mode="wrap")

    def getdata(self) -> list[NDArray]:
        return [to_ndarray(take(source, self._examples())) for _, source in self._data]

    def getlabel(self) -> list[NDArray]:
        return [to_ndarray(take(source, self._examples())) for _, source in self._label]

    def getindex(self) -> npt.NDArray[np.int64]:
        return self._examples()

    def getpad(self) -> int:
        if self.last_batch_handle == "roll_over":
            return self._first_pad if self.cursor == 0 else 0
        return max(0, self.cursor + self.batch_size - len(self._order))
