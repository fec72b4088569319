# SPDX-License-Identifier: Apache-2.0
"""The processes that a launcher has started: their output with names, and their end by number."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import IO, Any

#: seconds after which what is not ended counts as a line, and bytes
_MOMENT, _LONGEST = 0.5, 1 << 16
#: ends of lines; a carriage return at the end of what has come may be half of one
_END = re.compile(rb"(\r\n|\n|\r(?!\Z))")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _with_the_launcher() -> None:
    """In a child, before its program: killed when the launcher is, however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would Python


class Process:
    """One process with all that it starts: a session of its own.

    Threads: any, once it has started; it is killed when the thread that started it ends.

    Parameters
    ----------
    called : str
        Stands before each line of its output; empty passes the output through.
    command : sequence of str
    environment : mapping
    given : bytes
        What it reads; then its input ends.
    """

    def __init__(
        self, called: str, command: Sequence[str], environment: Mapping[str, str], given: bytes = b""
    ) -> None:
        self.called = called
        pipe = subprocess.PIPE if called else None
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            preexec_fn=_with_the_launcher,  # noqa: PLW1509  # the launcher starts its threads afterwards
        )
        self.pid = self._process.pid
        if self._process.stdin is not None:
            with contextlib.suppress(OSError), self._process.stdin as stdin:
                stdin.write(given)
        self._readers = [
            threading.Thread(target=self._copy, args=(source, target), daemon=True)
            for source, target in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))
            if source is not None
        ]

    def begin(self) -> None:
        """Begins to print what it says."""
        for reader in self._readers:
            reader.start()

    def _copy(self, source: IO[bytes], target: IO[str]) -> None:
        with source:
            for line in lines(source.fileno()):
                text = f"[{self.called}] {line.decode('utf-8', 'replace').rstrip()}\n"
                with _printing, contextlib.suppress(OSError, ValueError):
                    target.write(text)
                    target.flush()

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def ended(self, timeout: float) -> int | None:
        """Waits so many seconds for its exit status."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: int) -> None:
        """Sends a signal to the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def finish_output(self) -> None:
        """Waits a moment for the last lines."""
        for reader in self._readers:
            if reader.ident is not None:
                reader.join(1.0)


_printing = threading.Lock()


def lines(source: int) -> Iterator[bytes]:
    """The lines of a pipe, without their ends, as they come.

    A carriage return ends one, too, as in progress bars; and what is not ended is a line after a moment, such as a
    question.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    rest = b""
    while True:
        if rest and (len(rest) > _LONGEST or not poll.poll(1000 * _MOMENT)):
            yield rest
            rest = b""
        data = os.read(source, _LONGEST)
        if not data:
            break
        *whole, rest = _END.split(rest + data)
        for line, end in zip(whole[::2], whole[1::2], strict=True):
            if line or end != b"\r":  # a bar begins with one, too
                yield line
    if rest:
        yield rest


def described(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"has ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"was killed by signal {-status} ({name})"


def end(processes: Sequence[Process], grace: float, interrupt: bool = False) -> None:
    """Ends processes and all that they have started: asks, asks again, kills. Blocks.

    Parameters
    ----------
    grace : float
        Seconds between two steps.
    interrupt : bool
        Ask by Ctrl-C first.
    """
    for number in (signal.SIGINT, signal.SIGTERM) if interrupt else (signal.SIGTERM,):
        running = [each for each in processes if each.poll() is None]
        for each in running:
            each.signal(number)
        limit = time.monotonic() + grace
        while running and time.monotonic() < limit:
            time.sleep(0.02)
            running = [each for each in running if each.poll() is None]
    for each in processes:
        each.signal(signal.SIGKILL)  # the group, also of one whose first process has ended
        each.ended(grace)


class Stopped(Exception):
    """A signal ends the job. Threads: any.

    Parameters
    ----------
    number : int
        Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Stops:
    """The signals that end a job, from `with` on: SIGINT, SIGTERM and SIGHUP, where they are not ignored.

    A handler only notes the signal. One that raised an error could be called in a function from which Python lets none
    out, such as a finalizer or a callback of an import, and the signal would be lost. So a launcher asks, some times a
    second and before each process that it starts.

    Threads: the main one.
    """

    def __init__(self) -> None:
        #: the first signal that came, or 0
        self.number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stops:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def check(self) -> None:
        """Raises `Stopped` once a signal has come."""
        if self.number:
            raise Stopped(self.number)


def watch(
    processes: Sequence[Process],
    ended: Callable[[int, int], bool],
    pause: float = 0.02,
    look: Callable[[], object] = lambda: None,
) -> None:
    """Calls `ended(place, status)` for each that ends, until it returns True or all have ended. Blocks.

    Parameters
    ----------
    look : callable
        Called after each pause; what it raises ends the wait.
    """
    running = dict(enumerate(processes))
    while running:
        look()
        for place, process in list(running.items()):
            status = process.poll()
            if status is not None:
                del running[place]
                if ended(place, status):
                    return
        time.sleep(pause)
