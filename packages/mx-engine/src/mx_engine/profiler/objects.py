# SPDX-License-Identifier: Apache-2.0
"""Tasks, frames, events, counters and markers of the program itself.

All are recorded only while the profiler runs, and cost next to nothing otherwise.
"""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar

from mx_core.errors import ArgumentError
from mx_core.forks import ForkSafeLock
from mx_engine.profiler.recording import Mark, Span, Value
from mx_engine.profiler.scopes import scoped
from mx_engine.profiler.session import current


class Domain:
    """A group of tasks, frames, counters and markers; a process in the trace.

    Threads: any.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A marker of this domain."""
        return Marker(self, name)


class _Duration:
    """A span that can be started and stopped repeatedly; also a context manager.

    Threads: an object belongs to the thread that starts and stops it.
    """

    _kind: ClassVar[str]

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self._domain = domain
        self._started: int | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Begins; what began before and was not stopped is forgotten."""
        self._started = time.monotonic_ns()

    def stop(self) -> None:
        """Ends what `start` began.

        Raises
        ------
        ArgumentError
            It was not started.
        """
        started, self._started = self._started, None
        if started is None:
            raise ArgumentError(f"[profiler] {self._kind} {self.name!r} was stopped, but not started")
        current().add(
            Span(
                self._kind,
                self._domain.name,
                scoped(self.name),
                threading.get_native_id(),
                started,
                time.monotonic_ns(),
            )
        )

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class Task(_Duration):
    """A piece of work that may overlap others on its thread."""

    _kind = "task"


class Frame(_Duration):
    """One pass of a loop: a batch, a picture."""

    _kind = "frame"


class Event(_Duration):
    """A piece of work of one thread; events of a thread nest.

    Parameters
    ----------
    name : str
    """

    _kind = "event"

    def __init__(self, name: str) -> None:
        super().__init__(_EVENTS, name)


class Counter:
    """A number that changes over time.

    Threads: any.

    Parameters
    ----------
    domain : Domain
    name : str
    value : number, optional
        Set at once.
    """

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name = name
        self._domain = domain
        self._value: float = 0
        self._lock = ForkSafeLock()
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def _change(self, value: float, relative: bool) -> None:
        with self._lock:
            self._value = self._value + value if relative else value
            current().add(Value(self._domain.name, self.name, time.monotonic_ns(), self._value))

    def set_value(self, value: float) -> None:
        """The counter's value from now on."""
        self._change(value, relative=False)

    def increment(self, delta: float = 1) -> None:
        """Adds `delta`, atomically."""
        self._change(delta, relative=True)

    def decrement(self, delta: float = 1) -> None:
        """Subtracts `delta`, atomically."""
        self._change(-delta, relative=True)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self


class Marker:
    """A moment that is marked in the trace. Threads: any."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self._domain = domain

    def __str__(self) -> str:
        return self.name

    def mark(self, scope: str = "process") -> None:
        """Marks this moment.

        Parameters
        ----------
        scope : {'global', 'process', 'thread', 'task', 'marker'}
            How far the mark reaches in the trace; that of a task or of the marker alone is its thread's.

        Raises
        ------
        ArgumentError
            Another scope.
        """
        if scope in ("task", "marker"):
            scope = "thread"
        if scope not in ("global", "process", "thread"):
            known = "global, process, thread, task, marker"
            raise ArgumentError(f"[Marker.mark] scope: expected one of {known}, got {scope!r}")
        thread = threading.get_native_id()
        current().add(Mark(self._domain.name, scoped(self.name), thread, time.monotonic_ns(), scope))


_EVENTS = Domain("event")
