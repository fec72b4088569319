# SPDX-License-Identifier: Apache-2.0
"""Samplers: in which order the samples of a data set come, and which make a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core.errors import ArgumentError

if TYPE_CHECKING:
    from mx_gluon.data.dataset import Dataset

_LAST = ("keep", "discard", "rollover")


class Sampler:
    """Iterates over indices of samples, or over lists of them; `len` says how many come.

    Threads: an iterator belongs to one thread; a sampler may have several.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """`start`, `start` + 1, …, `length` of them.

    Threads: any.
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """Each index below `length` once, in an order that `numpy.random` draws anew for each iteration.

    Threads: any; they share NumPy's global generator.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[Any]:
        order = np.arange(self._length)
        np.random.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of samples for which a function is true; it is called for all of them at once.

    Threads: any.

    Parameters
    ----------
    fn : callable
        From a sample to whether it is taken.
    dataset : Dataset
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Dataset) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of indices of another sampler.

    Threads: one at a time; with `rollover` an iteration leaves indices for the next.

    Parameters
    ----------
    sampler : Sampler
    batch_size : int
    last_batch : str
        What becomes of indices that do not fill a batch: `keep` makes a smaller one, `discard` leaves them out,
        `rollover` begins the next iteration with them.

    Raises
    ------
    ArgumentError  another word, or a size below 1

    Examples
    --------
    >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        if last_batch not in _LAST:
            raise ArgumentError(
                f"[BatchSampler] last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch!r}"
            )
        if not isinstance(batch_size, (int, float, np.number)) or batch_size < 1:
            raise ArgumentError(f"[BatchSampler] batch_size: expected 1 or more, got {batch_size!r}")
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._left: list[Any] = []

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._left = self._left, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._left = batch

    def __len__(self) -> int:
        if self._last_batch == "keep":
            return math.ceil(len(self._sampler) / self._batch_size)
        begun = len(self._left) if self._last_batch == "rollover" else 0
        return (begun + len(self._sampler)) // self._batch_size
