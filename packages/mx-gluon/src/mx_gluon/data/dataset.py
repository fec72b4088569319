# SPDX-License-Identifier: Apache-2.0
"""Data sets: samples by index."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.data.sampler import FilterSampler, Sampler, SequentialSampler
from mx_gluon.errors import RefusedError
from mx_io.recordio import MXIndexedRecordIO
from mx_ndarray import NDArray


class Dataset:
    """Samples by index. A subclass defines `__getitem__` and `__len__`.

    Threads: as its samples; those of this module may be read by any.

    Examples
    --------
    >>> even = SimpleDataset([1, 2, 3, 4]).filter(lambda x: x % 2 == 0).transform(lambda x: x * 10)
    >>> list(even)
    [20, 40]
    """

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The samples for which a function is true; it is called for all of them at once."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """One of several consecutive parts, whose sizes differ by 1 at most: the first ones are larger.

        Raises
        ------
        RefusedError  there is no such part
        """
        if num_shards < 1 or not 0 <= index < num_shards:
            raise RefusedError(
                f"[Dataset] shard: expected an index from 0 below the number of shards, got {index} of {num_shards}"
            )
        size, rest = divmod(len(self), num_shards)
        start = size * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(size + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """The first samples, at most `count`; None takes all."""
        length = len(self) if count is None else min(count, len(self))
        return _SampledDataset(self, SequentialSampler(length))

    def sample(self, sampler: Sampler) -> Dataset:
        """The samples in the order of a sampler, which is asked once, now.

        Raises
        ------
        TypeError  it is no Sampler
        """
        if not isinstance(sampler, Sampler):
            raise TypeError(f"[Dataset] sample: expected a gluon.data.Sampler, got {type(sampler).__name__}")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """The samples after a function, which gets the parts of a tuple one by one.

        Parameters
        ----------
        lazy : bool
            Call it when a sample is asked for, each time; otherwise once for each, now.
        """
        transformed = _TransformedDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """The samples with their first part after a function: data, without the label.

        Parameters
        ----------
        lazy : bool
            As in `transform`.
        """
        return self.transform(_First(fn), lazy)


class SimpleDataset(Dataset):
    """Anything with `len` and `[]`, such as a list.

    Threads: as what it holds.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class ArrayDataset(Dataset):
    """Tuples of what several arrays, lists or data sets have at an index; of one alone its samples.

    Threads: any, if what it holds may be read by any.

    Parameters
    ----------
    *args : with `len` and `[]`
        All of one length. One-dimensional NDArrays are read into main memory now.

    Raises
    ------
    RefusedError  there is none, or lengths differ
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise RefusedError("[ArrayDataset] expected an array or more, got none")
        self._length = len(args[0])
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise RefusedError(
                    f"[ArrayDataset] all arrays must have the same length: array[0] has {self._length}, array[{i}] has "
                    f"{len(data)}"
                )
        self._data = [
            data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data for data in args
        ]

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of an indexed record file, as bytes.

    Threads: any; processes that a loader forks read by themselves.

    Parameters
    ----------
    filename : str
        The record file `NAME.rec`; `NAME.idx` is its index.

    Raises
    ------
    FileError  one of them is missing or damaged
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: Any) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _SampledDataset(Dataset):
    """What a sampler takes of another data set."""

    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._indices: Sequence[Any] = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class _TransformedDataset(Dataset):
    """A function on the samples of another data set."""

    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise ArgumentError(f"[Dataset] transform: expected a function, got {fn!r}")
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _First:
    """A function on the first argument; the others stay. A class, so that it can be pickled."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        return (self._fn(x), *args) if args else self._fn(x)
