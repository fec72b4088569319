# SPDX-License-Identifier: Apache-2.0
"""What all workers do once, in the order in which they ask for it: barriers, optimizers, commands to servers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mx_core.errors import MXNetError
from mx_kvstore_mpi.agreement import Told
from mx_kvstore_mpi.waiting import Waiter


@dataclass
class Step:
    """One of them.

    Parameters
    ----------
    called : str
        For messages.
    run : callable
        What the communication thread does: (its communicators) -> result.
    details : tuple of str
        What must be the same on all workers, too.
    """

    called: str
    run: Callable[[Any], Any]
    details: Told = ()
    ended: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: MXNetError | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def told(self) -> Told:
        """What is compared with the steps of other workers."""
        return (self.called, *self.details)


class Steps:
    """The steps that wait. Threads: any asks, the communication thread finishes.

    Parameters
    ----------
    waiter : Waiter
    wake : callable
        Called when `first` may be another one, one call at a time.
    """

    def __init__(self, waiter: Waiter, wake: Callable[[], object]) -> None:
        self._waiter = waiter
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[Step] = deque()

    @property
    def first(self) -> Step | None:
        """The step that is next."""
        try:
            return self._waiting[0]
        except IndexError:
            return None

    def do(self, called: str, run: Callable[[Any], Any], details: Told = ()) -> Any:
        """Waits for a step, and returns what it gives. Blocks.

        A program that does not wait to the end, as after Ctrl-C, ends the job's stores: nobody knows whether others
        have counted the step.
        """
        step = Step(called, run, details)
        with self._lock:
            self._waiter.fault.check()
            self._waiting.append(step)
            self._wake()
        try:
            while not step.ended.wait(0.2):  # Python looks for Ctrl-C in between
                pass
        except BaseException:
            if not step.ended.is_set():
                self._waiter.refuse(
                    f"[KVStore] {called} was interrupted while it waited, so the next one of this worker would meet an "
                    "earlier one of the others; start the job again"
                )
            raise
        if step.error is not None:
            raise step.error
        return step.result

    def finish(self, step: Step, result: Any = None, error: MXNetError | None = None) -> None:
        """Ends the first step."""
        with self._lock:
            if self._waiting and self._waiting[0] is step:
                self._waiting.popleft()
            self._wake()
        step.result, step.error = result, error
        step.ended.set()

    def fail(self, error: MXNetError) -> None:
        """Ends all steps, and those that come, which find the failure."""
        with self._lock:
            steps = list(self._waiting)
            self._waiting.clear()
            self._wake()
        for step in steps:
            step.error = type(error)(*error.args)
            step.ended.set()
