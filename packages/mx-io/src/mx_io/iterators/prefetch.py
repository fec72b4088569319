# SPDX-License-Identifier: Apache-2.0
"""Filling batches ahead of the consumer, with a fixed number of threads."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mx_core.errors import MXNetError
from mx_core.forks import ForkSafeLock
from mx_io.workers import Workers

Plan = TypeVar("Plan")
Buffers = TypeVar("Buffers")

#: Examples one task works on at most: bounds what is read at once.
_MAX_PIECE = 32

#: Fills slots [begin, end) of a batch; asks `stopped()` between examples and returns when it is true.
Fill = Callable[[Any, Any, int, int, Callable[[], bool]], None]


@dataclass
class _Pending(Generic[Plan, Buffers]):
    plan: Plan
    buffers: Buffers
    pieces: list[Future[None]]


class _Gate:
    """Tells the threads of an epoch to stop, once its batches are not needed any more."""

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping
        self.closed = False

    def __call__(self) -> bool:
        return self.closed or self._stopping()


class Prefetcher(Generic[Plan, Buffers]):
    """Batches in the order of their plans, up to `depth` of them filled or being filled.

    Threads: one consumer, whom another thread may stop by `start` or `close`; it fills on threads of its own.

    Parameters
    ----------
    allocate : callable
        `allocate(plan) -> buffers`, called on the consumer's thread.
    fill : callable
        `fill(plan, buffers, begin, end, stopped)`, called on the pool's threads for disjoint ranges of slots.
    slots : callable
        `slots(plan) -> int`.
    threads : int
    depth : int
        Batches ahead of the consumer.

    Notes
    -----
    What `fill` raises is raised by `next()`, again at each call until `start` begins another epoch. After a
    fork the child has threads of its own and goes on at the same batch.
    """

    def __init__(
        self,
        allocate: Callable[[Plan], Buffers],
        fill: Fill,
        slots: Callable[[Plan], int],
        threads: int,
        depth: int,
    ) -> None:
        self._allocate = allocate
        self._fill = fill
        self._slots = slots
        self._threads = threads
        self._depth = depth
        self._closed = False
        self._plans: Iterator[Plan] = iter(())
        self._drawn: Plan | None = None  # a plan whose batch could not be begun yet
        self._pending: deque[_Pending[Plan, Buffers]] = deque()
        self._lock = (
            ForkSafeLock()
        )  # of the plans and what is pending; never held while a batch is waited for
        self._open_pool()

    def _open_pool(self) -> None:
        self._pool = Workers(self._threads, "mx-io")
        self._gate = _Gate(self._pool.stopping())

    def start(self, plans: Iterator[Plan]) -> None:
        """Forget what is pending and begin an epoch."""
        with self._lock:
            self._require_open()
            self._drop_pending()
            self._renew_after_fork()
            self._plans, self._drawn = plans, None
            self._top_up(self._depth)

    def next(self) -> tuple[Plan, Buffers]:
        """The next batch, waited for; StopIteration at the end of the plans.

        Raises
        ------
        MXNetError  it is closed, or another thread has closed it or begun another epoch meanwhile
        """
        with self._lock:
            self._require_open()
            self._renew_after_fork()
            self._top_up(self._depth)
            pending = self._pending
            if not pending:
                raise StopIteration
            head = pending[0]
        with contextlib.suppress(CancelledError):  # of an epoch that is not current any more
            for piece in head.pieces:
                piece.result()
        with self._lock:
            self._require_open()
            if self._pending is not pending:
                raise MXNetError("another thread reset the iterator while this one waited for a batch")
            self._top_up(self._depth + 1)  # first: without memory for another batch this one is not lost
            pending.popleft()
        return head.plan, head.buffers

    def close(self) -> None:
        """Drop what is pending and end the threads; waits for the examples being worked on."""
        with self._lock:
            self._closed = True
            self._plans, self._drawn = iter(()), None
            self._drop_pending()
        self._pool.close()

    def _require_open(self) -> None:
        if self._closed or self._pool.closed:
            raise MXNetError("expected an open iterator, got one that was closed")

    def _drop_pending(self) -> None:
        self._gate.closed = True
        self._gate = _Gate(self._pool.stopping())
        dropped, self._pending = self._pending, deque()
        for batch in dropped:
            for piece in batch.pieces:
                piece.cancel()

    def _top_up(self, depth: int) -> None:
        while len(self._pending) < depth:
            if self._drawn is None:
                try:
                    self._drawn = next(self._plans)
                except StopIteration:
                    return
            self._pending.append(self._begin(self._drawn))
            self._drawn = None

    def _begin(self, plan: Plan) -> _Pending[Plan, Buffers]:
        buffers = self._allocate(plan)
        count = self._slots(plan)
        step = min(max(1, -(-count // self._threads)), _MAX_PIECE)
        pieces = [
            self._pool.submit(self._fill, plan, buffers, begin, min(begin + step, count), self._gate)
            for begin in range(0, count, step)
        ]
        return _Pending(plan, buffers, pieces)

    def _renew_after_fork(self) -> None:
        if not self._pool.forked:
            return
        self._open_pool()  # a child has none of its parent's threads
        begun = [batch.plan for batch in self._pending] + ([] if self._drawn is None else [self._drawn])
        self._plans, self._drawn, self._pending = itertools.chain(begun, self._plans), None, deque()
