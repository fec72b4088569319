# SPDX-License-Identifier: Apache-2.0
"""DataLoader: batches of a data set, made ahead by threads or processes."""

from __future__ import annotations

import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import random as np_random  # now: a fork must not meet its import in another thread

from mx_core.context import Context, cpu_pinned
from mx_core.errors import ArgumentError
from mx_gluon.data.batches import default_batchify_fn, default_mp_batchify_fn, in_context
from mx_gluon.data.processes import ProcessPool
from mx_gluon.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from mx_gluon.data.worker import Task
from mx_gluon.errors import RefusedError, WorkerError, WorkerTimeoutError
from mx_io.iterators.states import whole_number

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


class DataLoader:
    """Iterates over batches of a data set.

    With `num_workers` processes, or threads with `thread_pool`, batches are made ahead; they come in the same order as
    without. Processes are forked at the first iteration and stay for the next ones. What a transform draws from
    `random`, `numpy.random` and `mx.random` in a process depends on the state of `numpy.random` when the iteration
    begins, on how many iterations there were, and on the batch, not on the process. Arrays come in shared memory,
    which belongs to the batch.

    Threads: one at a time; several iterators may be open.

    Parameters
    ----------
    dataset : Dataset, or anything with `len` and `[]`
        Of one with a method `batch(indices, seed)`, as `mx_io.pipeline.ImageSamples` has it, whole batches are taken,
        but by processes and with a `batchify_fn`.
    batch_size : int
        Samples in a batch; with `shuffle`, `sampler` and `last_batch` it is instead of `batch_sampler`.
    shuffle : bool
        Draw the order anew for each iteration.
    sampler : Sampler, optional
        Gives the order, instead of `shuffle`.
    last_batch : str, optional
        `keep` (default), `discard` or `rollover`, as in `BatchSampler`.
    batch_sampler : Sampler, optional
        Gives the indices of each batch.
    batchify_fn : callable, optional
        From a list of samples to a batch; by default `default_batchify_fn`.
    num_workers : int
        Processes or threads that make batches; 0 makes them in the caller's thread.
    pin_memory, pin_device_id : bool, int
        Whether arrays go to `cpu_pinned(pin_device_id)`, from where a GPU copies faster.
    prefetch : int, optional
        Batches that are made ahead, by default two per worker.
    thread_pool : bool
        Threads instead of processes.
    timeout : float
        Seconds after which a batch that has not come is an error.
    auto_reload : bool
        Begin with the batches of the next iteration when one has ended, or before the first.

    Raises
    ------
    ArgumentError       arguments contradict each other
    RefusedError        `timeout` is not positive
    WorkerError         while iterating: a process has died, or its exception cannot be raised here
    WorkerTimeoutError  while iterating: no batch came in time

    Examples
    --------
    >>> loader = DataLoader(ArrayDataset([1, 2, 3], [10, 20, 30]), batch_size=2)
    >>> [(x.asnumpy().tolist(), y.asnumpy().tolist()) for x, y in loader]
    [([1, 2], [10, 20]), ([3], [30])]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        last_batch: str | None = None,
        batch_sampler: Sampler | None = None,
        batchify_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        self._pool: ProcessPool | None = None
        if not timeout > 0:
            raise RefusedError(f"[DataLoader] timeout must be positive, given {timeout}")
        self._dataset = dataset
        if batch_sampler is None:
            batch_sampler = _sampler(dataset, batch_size, shuffle, sampler, last_batch)
        elif batch_size is not None or shuffle or sampler is not None or last_batch:
            raise ArgumentError(
                "[DataLoader] batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is "
                "specified"
            )
        self._batch_sampler = batch_sampler
        self._num_workers = max(0, num_workers)
        self._threaded = thread_pool
        processes = self._num_workers > 0 and not thread_pool
        self._batchify_fn = batchify_fn or (default_mp_batchify_fn if processes else default_batchify_fn)
        # What makes whole batches by itself, such as `mx_io.pipeline.ImageSamples`.
        self._whole = getattr(dataset, "batch", None) if batchify_fn is None else None
        self._pinned: Context | None = cpu_pinned(pin_device_id) if pin_memory else None
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._timeout = timeout
        self._iterations = 0
        self._iter: Iterator[Any] | None = None
        self.auto_reload = auto_reload
        if auto_reload:
            self.refresh()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "_iter": None}  # a copy has processes of its own

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        batches = self._iter or self._batches()
        self._iter = None
        yield from batches
        if self._iter is None and self.auto_reload:
            self.refresh()

    def refresh(self) -> None:
        """Begins with the batches of the next iteration now."""
        self._iter = self._batches()

    def clean(self) -> None:
        """Forgets what `refresh` has begun."""
        self._iter = None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, between two iterations: what the random numbers of its workers depend on."""
        return {"iterations": self._iterations}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration draws what that of a loader of the same data was to draw when `state_dict` was called.

        That needs the same state of `numpy.random`, too.

        Raises
        ------
        ArgumentError  the state is something else; nothing changes
        """
        self._iterations = whole_number(state, "iterations", "DataLoader")
        self._iter = None

    # ---- batches ----

    def _batches(self) -> Iterator[Any]:
        if self._num_workers == 0:
            return self._here()
        return _Ahead(self)

    def _here(self) -> Iterator[Any]:
        for indices in self._batch_sampler:
            yield self._finished(self._made(Task(indices, 0)))

    def _made(self, task: Task) -> Any:
        if self._whole is not None:
            return self._whole(task.samples, task.seed or None)
        return self._batchify_fn([self._dataset[i] for i in task.samples])

    def _finished(self, batch: Any) -> Any:
        return batch if self._pinned is None else in_context(batch, self._pinned)

    def _processes(self) -> ProcessPool:
        """The processes, forked by this one; anew after a failure."""
        pool = self._pool
        if pool is None or pool.pid != os.getpid() or pool.broken is not None:
            pool = self._pool = ProcessPool(self, self._num_workers, self._dataset, self._batchify_fn)
        return pool


class _Ahead:
    """The batches of one iteration, some of them made ahead."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._indices = iter(loader._batch_sampler)
        self._coming: deque[tuple[Task, Future[Any]]] = deque()
        self._seeds = _seeds(loader._iterations)
        loader._iterations += 1
        self._pid = os.getpid()
        self._threads = ThreadPoolExecutor(loader._num_workers, "DataLoader") if loader._threaded else None
        self._pool = None if loader._threaded else loader._processes()
        for _ in range(loader._prefetch):
            self._begin_next()

    def __iter__(self) -> Iterator[Any]:
        return self

    def _begin_next(self) -> None:
        for indices in self._indices:
            task = Task(list(indices), next(self._seeds))
            if self._threads is not None:
                future = self._threads.submit(self._loader._made, task)
            else:
                assert self._pool is not None
                future = self._pool.submit(task)
            self._coming.append((task, future))
            return

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise WorkerError(
                f"[DataLoader] this iteration belongs to process {self._pid}, of which this one was forked; begin a "
                "new one"
            )
        self._begin_next()
        if not self._coming:
            self._end()
            raise StopIteration
        task, future = self._coming.popleft()
        try:
            batch = future.result(self._loader._timeout)
        except TimeoutError as error:
            raised = future.done()  # by the data set
            self._give_up()
            if raised:
                raise
            raise WorkerTimeoutError(
                f"[DataLoader] no batch came in {self._loader._timeout} s: samples {task.samples[:8]}; "
                "a larger `timeout` waits longer"
            ) from error
        except StopIteration as error:
            self._give_up()
            raise WorkerError(f"[DataLoader] samples {task.samples[:8]} raised StopIteration") from error
        except BaseException:
            self._give_up()
            raise
        return self._loader._finished(batch)

    def _give_up(self) -> None:
        """Ends the iteration after a failure; processes that may be at work on it for ever, too."""
        self._end()
        if self._pool is not None:
            self._pool.stop()
            self._loader._pool = None

    def _end(self) -> None:
        """Leaves out batches that have not begun."""
        for _, future in self._coming:
            future.cancel()
        self._coming.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _seeds(iteration: int) -> Iterator[int]:
    """A seed per batch, from the state of `numpy.random`, which is left as it is, and the number of the iteration."""
    state = np_random.get_state(legacy=False)  # of any generator
    begun = zlib.crc32(json.dumps(state, default=np.ndarray.tolist).encode()), iteration
    number = 0
    while True:
        yield int(np_random.SeedSequence((*begun, number)).generate_state(1)[0])
        number += 1


def _sampler(
    dataset: Any, batch_size: int | None, shuffle: bool, sampler: Sampler | None, last_batch: str | None
) -> Sampler:
    if batch_size is None:
        raise ArgumentError("[DataLoader] batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = (RandomSampler if shuffle else SequentialSampler)(len(dataset))
    elif shuffle:
        raise ArgumentError("[DataLoader] shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")
