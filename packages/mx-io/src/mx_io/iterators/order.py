# SPDX-License-Identifier: Apache-2.0
"""Which examples make up which batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, OutOfMemoryError
from mx_io.iterators.states import whole_number

#: Examples up to which they are shuffled at once: their order lies in the cache of a core.
_AT_ONCE = 1 << 17
#: Examples of a share of more, at least.
_SHARE = 1 << 15


def shuffled(count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """The numbers below `count` in random order, each order as likely as any other.

    Many are first dealt to shares that a core's cache holds, and each share is shuffled: an example costs the same
    however many there are.

    Source: Rao, "Generation of random permutation of given number of elements using random sampling numbers", 1961.
    """
    if count <= _AT_ONCE:
        return generator.permutation(count)
    shares = min(256, -(-count // _SHARE))
    share_of = generator.integers(0, shares, count, dtype=np.uint8)
    order = np.argsort(share_of, kind="stable")
    # In parts: NumPy counts a copy of eight bytes a number.
    parts = np.split(share_of, range(_AT_ONCE, count, _AT_ONCE))
    sizes = np.sum([np.bincount(part, minlength=shares) for part in parts], axis=0)
    begin = 0
    for size in sizes.tolist():
        generator.shuffle(order[begin : begin + size])
        begin += size
    return order


@dataclass(frozen=True)
class BatchPlan:
    """One batch.

    Attributes
    ----------
    examples : ndarray of int64
        Positions of the examples; shorter than the batch when the tail stays empty.
    passes : ndarray of int64
        In which pass over the data each example is read, from 0.
    pad : int
        Slots at the end that do not count.
    resume : int
        Where the next epoch begins once this batch is consumed, in examples since the first pass.
    epoch : int
        Which epoch it belongs to, counted by those that were begun.
    """

    examples: npt.NDArray[np.int64]
    passes: npt.NDArray[np.int64]
    pad: int
    resume: int
    epoch: int = 0


class _Plans:
    """The plans of an epoch, in order; one that could not be made is made when it is asked for again."""

    def __init__(self, order: ExampleOrder, position: int, epoch: int) -> None:
        self._order, self._position, self._epoch = order, position, epoch
        self._end = (position // order.count + 1) * order.count

    def __iter__(self) -> _Plans:
        return self

    def __next__(self) -> BatchPlan:
        plan = self._order.plan(self._position, self._end, self._epoch)
        if plan is None:
            raise StopIteration
        self._position += len(plan.examples)
        return plan


class ExampleOrder:
    """An endless sequence of passes over the data, each in order or shuffled, cut into epochs of batches.

    Threads: one at a time.

    Parameters
    ----------
    count : int
        Examples.
    shuffle : bool
        Every pass has its own permutation, which depends on (`seed`, pass) alone.
    tail : {"round", "pad", "discard"}
        What happens with a last batch that is not full. `"round"` takes the first examples of the next pass,
        and the next epoch begins after them; `"pad"` leaves the slots empty; `"discard"` drops the batch.
    """

    def __init__(
        self, count: int, batch_size: int, *, shuffle: bool = False, seed: int = 0, tail: str = "round"
    ) -> None:
        if count < 1 or batch_size < 1:
            raise ArgumentError(
                f"expected at least one example and batch_size >= 1, got {count} and {batch_size}"
            )
        self.count = count
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.tail = tail
        #: where the next epoch begins, in examples since the first pass
        self.position = 0
        #: epochs that were begun
        self.epochs = 0
        self._begun = 0  # where the present one began
        self._batches = 0  # of it that were handed out
        self._permutations: dict[int, npt.NDArray[np.int64]] = {}

    def epoch(self) -> Iterator[BatchPlan]:
        """The batches of an epoch. Plans may be drawn ahead: only `consumed` ones move the next epoch on."""
        self._begun, self._batches = self.position, 0
        self.epochs += 1
        return self._plans(self.position, self.epochs)

    def _plans(self, position: int, epoch: int) -> Iterator[BatchPlan]:
        return _Plans(self, position, epoch)

    def plan(self, position: int, end: int, epoch: int) -> BatchPlan | None:
        """Of the batch at a position of an epoch that ends at `end`; None if there is none.

        Raises
        ------
        OutOfMemoryError  no memory holds the numbers of so many examples
        """
        stop = position + self.batch_size
        missing = max(0, stop - end)
        if position >= end or (missing and self.tail == "discard"):
            return None
        stop = stop if self.tail == "round" else min(stop, end)
        try:
            span = np.arange(position, stop)
            return BatchPlan(self._examples(span), span // self.count, missing, max(stop, end), epoch)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"expected memory for the numbers of {stop - position} examples of {self.count}, got none ({error}): "
                "give a smaller batch_size"
            ) from error

    def consumed(self, plan: BatchPlan) -> bool:
        """A batch is handed out: the next epoch begins after it, or with the next pass if left early.

        False, and nothing changes, for a batch of a former epoch.
        """
        if plan.epoch != self.epochs:
            return False
        self.position = plan.resume
        self._batches += 1
        return True

    def ended(self) -> None:
        """The epoch has no further batch: `state` is that of the next one."""
        self._begun, self._batches = self.position, 0

    def state(self) -> dict[str, Any]:
        """Where the present epoch began, and how many batches of it were handed out."""
        return {"position": self._begun if self._batches else self.position, "batches": self._batches}

    def resumed(self, state: Mapping[str, Any], op: str) -> Iterator[BatchPlan]:
        """The batches that follow those of a state; without `batches`, as former versions had it, all of the epoch.

        Raises
        ------
        ArgumentError  the state is something else, or has more batches than an epoch; nothing changes
        """
        position = whole_number(state, "position", op)
        batches = whole_number(state, "batches", op) if "batches" in state else 0
        plans = self._plans(position, self.epochs + 1)
        begun = position
        for given in range(batches):
            plan = next(plans, None)
            if plan is None:
                raise ArgumentError(
                    f"[{op}] state: batches: expected at most the {given} of the epoch, got {batches}: the data are "
                    "others"
                )
            position = plan.resume
        self.position, self._begun, self._batches = position, begun, batches
        self.epochs += 1
        return plans

    def _examples(self, span: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        places: npt.NDArray[np.int64] = span % self.count
        if not self.shuffle:
            return places
        passes = span // self.count
        return np.array([self._permutation(int(p))[i] for p, i in zip(passes, places, strict=True)], np.int64)

    def _permutation(self, number: int) -> npt.NDArray[np.int64]:
        found = self._permutations.get(number)
        if found is None:
            key = np.array([self.seed % 2**64, number], np.uint64)
            found = shuffled(self.count, np.random.Generator(np.random.Philox(key=key)))
            # A batch touches neighbouring passes only.
            kept: dict[int, Any] = {n: p for n, p in self._permutations.items() if abs(n - number) <= 1}
            self._permutations = kept | {number: found}
        return found
