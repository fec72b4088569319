# SPDX-License-Identifier: Apache-2.0
"""A sampler that leaves out indices in between."""

from __future__ import annotations

from collections.abc import Iterator

from mx_gluon.data.sampler import Sampler
from mx_gluon.errors import RefusedError


class IntervalSampler(Sampler):
    """The indices 0, `interval`, 2 · `interval`, … below `length`, then 1, 1 + `interval`, …, until all have come.

    Threads: any.

    Parameters
    ----------
    length : int
    interval : int
        From 1 to `length`.
    rollover : bool
        Begin again with the indices that were left out; otherwise the first round is all.

    Raises
    ------
    RefusedError  `interval` is below 1 or above `length`

    Examples
    --------
    >>> list(IntervalSampler(7, 3)), list(IntervalSampler(7, 3, rollover=False))
    ([0, 3, 6, 1, 4, 2, 5], [0, 3, 6])
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if not 1 <= interval <= length:
            raise RefusedError(
                f"[IntervalSampler] interval: expected a number from 1 to the length {length}, got {interval}"
            )
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)
