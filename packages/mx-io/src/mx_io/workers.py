# SPDX-License-Identifier: Apache-2.0
"""Threads for work that is not needed any more when the interpreter exits.

`concurrent.futures.ThreadPoolExecutor` finishes its whole queue at exit, batches that will not be used
included. These threads stop after the task at hand, and are joined before the interpreter goes, so that none
is ended inside native code.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from mx_core import lifecycle
from mx_core.errors import MXNetError
from mx_core.weak import WeakGroup

T = TypeVar("T")
_Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]

#: Seconds that the interpreter's exit waits for tasks that are running, usually and after Ctrl-C.
EXIT_PATIENCE, INTERRUPTED_PATIENCE = 10.0, 1.0


class _Pool:
    """What the threads share; they hold this and not `Workers`, so that forgotten workers end.

    The end of `Workers` wakes the threads by native code alone (a weak reference puts itself into the queue):
    a finalizer in Python would swallow a Ctrl-C that lands in it.
    """

    def __init__(self, owner: Workers) -> None:
        self.queue: SimpleQueue[_Task | weakref.ref[Workers]] = SimpleQueue()
        self.threads: list[Thread] = []
        self._owner = weakref.ref(owner, self.queue.put)
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed or self._owner() is None

    def run(self) -> None:
        while isinstance(task := self.queue.get(), tuple):
            future, function, arguments = task
            if self.closed or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # of any kind: the consumer handles it
                future.set_exception(error)
            del task, future, function, arguments  # an idle thread keeps nothing alive
        self.queue.put(task)  # for the next thread

    def close(self) -> None:
        self._closed = True
        self.queue.put(self._owner)


_pools: WeakGroup[_Pool] = WeakGroup()


@atexit.register
def _end_all() -> None:
    pools = list(_pools)
    for pool in pools:
        pool.close()
    try:
        _join(pools, INTERRUPTED_PATIENCE if lifecycle.interrupted() else EXIT_PATIENCE)
    except KeyboardInterrupt:
        lifecycle.interrupt()
        _join(pools, INTERRUPTED_PATIENCE)


def _join(pools: Sequence[_Pool], patience: float) -> None:
    deadline = time.monotonic() + patience
    for pool in pools:
        for thread in pool.threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class Workers:
    """A fixed number of threads that run tasks in the order of submission.

    They end with this object, by `close`, or at interpreter exit. A forked child needs workers of its own:
    `forked` says so.

    Threads: any may submit.
    """

    def __init__(self, count: int, name: str) -> None:
        self._process = os.getpid()
        self._pool = _Pool(self)
        _pools.add(self._pool)
        for number in range(count):
            thread = Thread(target=self._pool.run, name=f"{name}_{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._pool.close()
                raise MXNetError(f"[{name}] thread {number + 1} of {count}: {error}") from error
            self._pool.threads.append(thread)

    @property
    def forked(self) -> bool:
        """True in a child of the process that started the threads."""
        return self._process != os.getpid()

    @property
    def closed(self) -> bool:
        """True when no further task will begin."""
        return self._pool.closed

    def stopping(self) -> Callable[[], bool]:
        """A function that tells a long task whether to give up; does not keep the workers alive."""
        pool = self._pool
        return lambda: pool.closed

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Queue a task; its result or exception is the future's."""
        future: Future[T] = Future()
        if self._pool.closed:
            future.cancel()
        else:
            self._pool.queue.put((future, function, arguments))
            if self._pool.closed:  # meanwhile: no thread may be left to see the task
                future.cancel()
        return future

    def close(self) -> None:
        """Drop what is queued and wait for what is running."""
        self._pool.close()
        if not self.forked:
            for thread in self._pool.threads:
                thread.join()
