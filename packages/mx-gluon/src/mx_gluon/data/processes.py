# SPDX-License-Identifier: Apache-2.0
"""Processes that make batches, and the thread that hands them work."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import wait
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from mx_core.forks import ForkSafeLock
from mx_gluon.data.batches import Message, receive, unpickled
from mx_gluon.data.worker import Failure, Task, run
from mx_gluon.errors import WorkerError

_FORK = multiprocessing.get_context("fork")
#: held while a process is forked: no other one may get, and keep, the end by which its own death is noticed
_FORKING = ForkSafeLock()
#: seconds after which the thread looks whether its loader is gone
_LOOK_AGAIN = 0.25
#: what to do about a process that died
_ADVICE = "; with num_workers=0 the program makes these samples itself, where a debugger sees them"
_MEMORY = ", and the system's log says whether it killed the process because memory was short"


class Process:
    """A forked process, and what it is at work on.

    Threads: belongs to that of its pool.
    """

    def __init__(
        self, number: int, dataset: Any, batchify_fn: Callable[..., Any], before: Sequence[Process]
    ) -> None:
        self.number = number
        self.work: tuple[Task, Future[Any]] | None = None
        with _FORKING:
            self.end, other = _FORK.Pipe()
            inherited = [self.end, *(process.end for process in before)]
            self.process = _FORK.Process(
                target=run,
                args=(other, inherited, dataset, batchify_fn),
                name=f"DataLoader-{number}",
                daemon=True,
            )
            self.process.start()
            other.close()

    def give(self, task: Task, future: Future[Any]) -> None:
        """Sends a task to the process, which waits for one."""
        try:
            message = Message(task)
        except Exception as error:  # an index that cannot be sent
            future.set_exception(error)
            return
        self.work = task, future
        with contextlib.suppress(OSError):  # it died: its end tells
            message.send(self.end)

    def told(self, reason: str, advice: str = "") -> WorkerError:
        """What is said of a process that makes no more batches."""
        samples = (
            "" if self.work is None else f" while it made the batch of samples {_short(self.work[0].samples)}"
        )
        return WorkerError(
            f"[DataLoader] worker {self.number} (process {self.process.pid}) {reason}{samples}{advice}"
        )

    def end_of_it(self, error: Exception) -> WorkerError:
        """What is said of one that has died, or from which nothing can be received any more."""
        self.process.join(1)
        code = self.process.exitcode
        if code is None:
            return self.told(f"sent what could not be received, {error},")
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            return self.told(f"was killed by {name}", _ADVICE + (_MEMORY if name == "SIGKILL" else ""))
        return self.told(f"ended with exit code {code}", _ADVICE)


class ProcessPool:
    """Makes batches in forked processes.

    Each process has one task at a time; a thread takes what it has made and gives it the next. A process that dies
    fails its task and all that wait, and the pool is of no more use. The processes end with the pool's owner.

    Threads: any may submit.

    Parameters
    ----------
    owner : object
        Whose pool it is.
    count : int
        Number of processes.
    dataset, batchify_fn
        As of the loader; processes have them by being forked.
    """

    def __init__(self, owner: object, count: int, dataset: Any, batchify_fn: Callable[..., Any]) -> None:
        self.pid = os.getpid()
        self.broken: WorkerError | None = None
        self._waiting: deque[tuple[Task, Future[Any]]] = deque()
        self._lock = Lock()
        self._stopping = False
        queue: SimpleQueue[object] = SimpleQueue()
        self._gone, self._owner = queue, weakref.ref(owner, queue.put)
        self._woken, self._wake = _FORK.Pipe(duplex=False)
        self._processes: list[Process] = []
        for number in range(count):
            self._processes.append(Process(number, dataset, batchify_fn, self._processes))
        self._thread = Thread(target=self._serve, name="DataLoader", daemon=True)
        self._thread.start()

    def submit(self, task: Task) -> Future[Any]:
        """The batch, when it is made."""
        future: Future[Any] = Future()
        with self._lock:
            if self.broken is not None:
                future.set_exception(self.broken)
                return future
            self._waiting.append((task, future))
            if len(self._waiting) == 1:
                self._wake.send_bytes(b"work")
        return future

    def stop(self) -> None:
        """Ends the processes, and waits until they are gone; in another process than the loader's does nothing."""
        if os.getpid() != self.pid:
            return
        with self._lock:
            if self.broken is None:
                self._stopping = True
                self._wake.send_bytes(b"stop")
        self._thread.join(10)

    # ---- the thread ----

    def _serve(self) -> None:
        try:
            self._work()
        except Exception as error:  # a fault of this module: nobody shall wait for ever
            self.broken = WorkerError(f"[DataLoader] the thread that serves the processes failed: {error!r}")
        self._end()

    def _work(self) -> None:
        ends: dict[Any, Process] = {process.end: process for process in self._processes}
        while not self._stopping and self._gone.empty() and self.broken is None:
            self._give_work()
            for end in wait([self._woken, *ends], _LOOK_AGAIN):
                if end is self._woken:
                    self._woken.recv_bytes()
                elif not self._take(ends[end]):
                    break

    def _end(self) -> None:
        self._fail_all(
            self.broken or WorkerError("[DataLoader] the loader was stopped before the batch was made")
        )
        for process in self._processes:
            process.process.terminate()
        for process in self._processes:
            process.process.join(1)
            if process.process.is_alive():
                process.process.kill()
                process.process.join(1)
            process.end.close()

    def _give_work(self) -> None:
        for process in self._processes:
            while process.work is None:
                with self._lock:
                    if not self._waiting:
                        return
                    task, future = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    process.give(task, future)

    def _take(self, process: Process) -> bool:
        """Takes what a process has sent; False if that is its end."""
        try:
            made = receive(process.end)
        except (EOFError, OSError) as error:
            self.broken = process.end_of_it(error)
            return False
        except Exception as error:  # what it sent cannot be read here
            made = Failure(None, f"{type(error).__name__}: {error}")
        assert process.work is not None
        task, future = process.work
        process.work = None
        if isinstance(made, Failure):
            future.set_exception(_error(process, task, made))
        else:
            future.set_result(made)
        return True

    def _fail_all(self, error: WorkerError) -> None:
        with self._lock:
            self.broken = error
            left = list(self._waiting)
            self._waiting.clear()
        for process in self._processes:
            if process.work is not None:
                process.work[1].set_exception(error)
        for _, future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


def _error(process: Process, task: Task, failure: Failure) -> BaseException:
    """The exception of another process, with its traceback there as a note."""
    where = f"in worker {process.number} (process {process.process.pid}), samples {_short(task.samples)}"
    error = unpickled(failure.error)
    if error is None:
        return WorkerError(f"[DataLoader] {where}:\n{failure.text}")
    error.add_note(f"{where}:\n{failure.text}")
    return error


def _short(samples: Sequence[Any]) -> str:
    listed = ", ".join(map(str, list(samples)[:8]))
    return f"{listed}, …" if len(samples) > 8 else listed
