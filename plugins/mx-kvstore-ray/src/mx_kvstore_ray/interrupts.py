# SPDX-License-Identifier: Apache-2.0
"""Signals while Ray starts, which waits for its processes without asking anybody whether it still should."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from mx_kvstore.processes import Stops

_Result = TypeVar("_Result")
#: seconds that an interrupted call has to end
_PATIENCE = 10.0
_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Interrupt(BaseException):
    """Leaves a call. A KeyboardInterrupt that was caught may still end the process at its exit: where it came while
    Python executed a text, as in the making of a named tuple."""


class Interrupts:
    """Has the signals of `Stops` interrupt a call, too: by one error inside it.

    That error may get lost, as `Stops` says, Ray's native code makes errors of its own of it, and Ray has its own
    handler of SIGTERM while it starts. So the system tells the signals that came a second time, through a pipe, and a
    thread that reads it ends the process if Ray's native code does not return, as where nobody answers at an address.

    Threads: the main one.

    Parameters
    ----------
    stops : Stops
        That has been entered.
    """

    def __init__(self, stops: Stops) -> None:
        self._stops = stops
        self._inside = False

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Calls a function; blocks as long as that does.

        Raises
        ------
        Stopped  a signal came before or meanwhile, whatever the function then did
        """
        self._stops.check()
        before = {number: signal.getsignal(number) for number in _NUMBERS}
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(write, False)
        over = threading.Event()
        thread = threading.Thread(
            target=self._read, args=(read, over), name="mx kvstore: signals", daemon=True
        )
        thread.start()
        other = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            try:
                self._inside = True
                for number, handler in before.items():
                    if handler is not signal.SIG_IGN:  # as nohup has it
                        signal.signal(number, self._interrupt)
                self._stops.check()
                return function()
            finally:
                self._inside = False
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(other)
            over.set()
            os.close(write)
            thread.join()
            self._stops.check()

    def _read(self, read: int, over: threading.Event) -> None:
        with os.fdopen(read, "rb", buffering=0) as pipe:
            while data := pipe.read(1):
                if data[0] not in _NUMBERS:
                    continue
                self._stops.number = self._stops.number or data[0]
                if not over.wait(_PATIENCE):
                    said = f"mx launch: stopped by {signal.Signals(data[0]).name}, while Ray did not return"
                    print(said, file=sys.stderr, flush=True)
                    os._exit(128 + data[0])  # what it has started ends with it

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._inside:
            self._inside = False  # once: what follows is not to be interrupted
            self._stops.number = self._stops.number or number  # also where somebody else reads the wakeups
            raise _Interrupt
