# SPDX-License-Identifier: Apache-2.0
"""Iterators that wrap other iterators: `ResizeIter` and `PrefetchingIter`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future

from mx_core.errors import ArgumentError, MXNetError
from mx_io.iterators.base import BatchIter, DataBatch, DataDesc, DataIter
from mx_io.workers import Workers


class ResizeIter(BatchIter):
    """An iterator with epochs of `size` batches, beginning anew or stopping early as needed.

    Parameters
    ----------
    data_iter : DataIter
    size : int
        Batches in an epoch.
    reset_internal : bool
        Whether `reset` resets `data_iter` too; otherwise the next epoch goes on where this one ended.
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data: list[DataDesc] = data_iter.provide_data  # type: ignore[attr-defined]  # of subclasses
        self.provide_label: list[DataDesc] = data_iter.provide_label  # type: ignore[attr-defined]  # of subclasses
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Begin the next epoch."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def _make(self) -> DataBatch:
        if self.cur == self.size:
            raise StopIteration
        try:
            batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            batch = self.data_iter.next()
        self.cur += 1
        return batch


class PrefetchingIter(BatchIter):
    """One or several iterators stepped together, each in a thread of its own, one batch ahead.

    Parameters
    ----------
    iters : DataIter or list of DataIter
        The data and labels of a batch are those of all iterators, in order.
    rename_data, rename_label : list of dict, optional
        New names of inputs, a dict for each iterator.

    Notes
    -----
    What an iterator raises in its thread is raised by `next()`. Iterators of different length are an error at
    the end of the shortest. A forked child goes on by itself; if the fork came while a thread was making a batch,
    `next()` says so there until `reset()`.

    Threads: one takes batches; any may close it meanwhile.
    """

    def __init__(
        self,
        iters: DataIter | Sequence[DataIter],
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        self.iters: list[DataIter] = [iters] if isinstance(iters, DataIter) else list(iters)
        if not self.iters:
            raise ArgumentError("[PrefetchingIter] iters: expected at least one iterator, got none")
        self.n_iter = len(self.iters)
        self.rename_data = rename_data
        self.rename_label = rename_label
        super().__init__(self.provide_data[0].shape[0])
        self._threads = Workers(self.n_iter, "mx-io-prefetch")
        self._request()

    @property
    def provide_data(self) -> list[DataDesc]:
        """Inputs of all iterators."""
        return self._descriptions("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Labels of all iterators."""
        return self._descriptions("provide_label", self.rename_label)

    def _descriptions(self, attribute: str, rename: Sequence[Mapping[str, str]] | None) -> list[DataDesc]:
        found = []
        for i, source in enumerate(self.iters):
            names: Mapping[str, str] = {} if rename is None else rename[i]
            for entry in getattr(source, attribute):
                desc = entry if isinstance(entry, DataDesc) else DataDesc(*entry)
                found.append(DataDesc(names.get(desc.name, desc.name), desc.shape, desc.dtype, desc.layout))
        return found

    def _request(self) -> None:
        self._fetches = [_Fetch(source) for source in self.iters]
        self._pending: list[Future[DataBatch | None]] = [self._threads.submit(f) for f in self._fetches]

    def _renew_after_fork(self) -> None:
        """In a child, which has none of its parent's threads: threads of its own, and what those had made."""
        if not self._threads.forked:
            return
        self._threads = Workers(self.n_iter, "mx-io-prefetch")
        self._pending = [fetch.known() for fetch in self._fetches]

    def _require_open(self) -> None:
        if self._threads.closed:
            raise MXNetError("[PrefetchingIter] expected an open iterator, got one that was closed")

    @property
    def current_batch(self) -> DataBatch | None:
        """The batch that was given last, if any; MXNet has a list with None before the first one."""
        return self._current

    def reset(self) -> None:
        """Begin the next epoch of every iterator."""
        self._require_open()
        self._renew_after_fork()
        for pending in self._pending:
            with contextlib.suppress(CancelledError):
                pending.exception()  # an error of the abandoned epoch is dropped
        self._require_open()
        for source in self.iters:
            source.reset()
        self._request()

    def close(self) -> None:
        """End the threads; the iterator cannot be used afterwards."""
        self._threads.close()

    def _make(self) -> DataBatch:
        self._require_open()
        self._renew_after_fork()
        try:
            batches = [pending.result() for pending in self._pending]
        except CancelledError:
            self._require_open()
            raise
        present = [batch for batch in batches if batch is not None]
        if not present:
            raise StopIteration
        if len(present) != len(batches) or len({batch.pad for batch in present}) != 1:
            raise ArgumentError(
                f"[PrefetchingIter] expected {self.n_iter} iterators of equal length, got batches of padding "
                f"{[None if batch is None else batch.pad for batch in batches]}"
            )
        self._request()
        labels = [label for batch in present for label in batch.label or ()]
        return DataBatch(
            [array for batch in present for array in batch.data],
            labels,
            present[0].pad,
            present[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )


class _Fetch:
    """The next batch of an iterator, or None at the end of its epoch; called once, by a thread."""

    def __init__(self, source: DataIter) -> None:
        self._source = source
        self._outcome: tuple[DataBatch | None, BaseException | None] | None = None

    def __call__(self) -> DataBatch | None:
        try:
            batch = self._source.next()
        except StopIteration:  # which a Future cannot carry
            self._outcome = None, None
            return None
        except BaseException as error:
            self._outcome = None, error
            raise
        self._outcome = batch, None
        return batch

    def known(self) -> Future[DataBatch | None]:
        """For a forked child: what the thread had made. The child does not touch the lock of that thread's future."""
        future: Future[DataBatch | None] = Future()
        if self._outcome is None:
            future.set_exception(
                MXNetError(
                    "[PrefetchingIter] the process was forked while a thread was making a batch: call reset() in the "
                    "child"
                )
            )
        elif self._outcome[1] is not None:
            future.set_exception(self._outcome[1])
        else:
            future.set_result(self._outcome[0])
        return future
