# SPDX-License-Identifier: Apache-2.0
"""Signals while Ray starts, which waits for its processes without asking anybody whether it still should."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from mx_kvstore.processes import Stops

_Result = TypeVar("_Result")
_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Interrupt(BaseException):
    """Leaves a call. A KeyboardInterrupt that was caught may still end the process at its exit: where it came while
    Python executed a text, as in the making of a named tuple."""


class Interrupts:
    """Has the signals of `Stops` interrupt a call, too: by one error inside it.

    That error may get lost, as `Stops` says, Ray's native code makes errors of its own of it, and Ray has its own
    handler of SIGTERM while it starts. So the system tells the signals that came a second time, through a pipe.

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
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        other = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            try:
                self._inside = True
                for number, handler in before.items():
                    if handler is not signal.SIG_IGN:  # as nohup has it
                        signal.signal(number, self._interrupt)
                return function()
            finally:
                self._inside = False
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(other)
            os.close(write)
            with os.fdopen(read, "rb") as pipe:
                came = [number for number in pipe.read() or b"" if number in _NUMBERS]
            if came:
                self._stops.number = self._stops.number or came[0]
            self._stops.check()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._inside:
            self._inside = False  # once: what follows is not to be interrupted
            raise _Interrupt
