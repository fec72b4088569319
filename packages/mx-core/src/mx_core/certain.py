# SPDX-License-Identifier: Apache-2.0
"""Calls that no handler of a signal interrupts, Ctrl-C's included.

Handlers run on the main thread alone, so the calls of the main thread are made by another one, which it waits for.
"""

from __future__ import annotations

import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial

#: Seconds between two looks at whether a call has ended; it wakes its waiter, so that this only bounds an accident.
_LOOK = 0.5


class Call:
    """One call of a function, of which nothing is interrupted once it has begun.

    `begin` is native: between it and what is written before it no handler runs, so in a `finally` it is certain to be
    reached. It raises RuntimeError where no thread can be had; then `run` makes the call here.

    Threads: those that begin it and wait for it.

    Examples
    --------
    >>> made = []
    >>> call = Call(lambda: made.append(1))
    >>> _ = call.begin()
    >>> call.wait()
    >>> made
    [1]
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._ended = False
        self._wake = threading.Lock()
        self._wake.acquire()
        main = threading.current_thread() is threading.main_thread() and not sys.is_finalizing()
        self.begin: Callable[[], object] = partial(start_new_thread, self.run, ()) if main else self.run

    def run(self) -> None:
        """Makes the call in this thread; its error is raised by `wait`."""
        try:
            self._function()
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            self._wake.release()

    def wait(self, patience: int = 1) -> None:
        """Waits until the call has ended; raises what it has raised.

        An interrupt is raised when the call has ended, or at once if it is the one after `patience` others: 0 leaves
        the call alone.
        """
        interrupts: list[BaseException] = []
        while not self._ended and not sys.is_finalizing():  # when no other thread runs any more
            try:
                self._wake.acquire(timeout=_LOOK)
            except BaseException as error:
                interrupts.append(error)
                if len(interrupts) > patience:
                    raise
        if interrupts:
            raise interrupts[0]
        if self._error is not None:
            raise self._error

    def settle(self, seconds: float = float("inf")) -> None:
        """Waits until the call has ended, or for so long, and raises nothing of it; after an interrupt."""
        deadline = time.monotonic() + seconds
        while not self._ended and not sys.is_finalizing() and (left := deadline - time.monotonic()) > 0:
            self._wake.acquire(timeout=min(left, _LOOK))


def certainly(function: Callable[[], object]) -> None:
    """Calls a function; an interrupt is raised when the call has ended."""
    call = Call(function)
    try:
        try:
            call.begin()
        except (RuntimeError, MemoryError):
            call.run()
        call.wait()
    except BaseException:
        call.settle()
        raise
