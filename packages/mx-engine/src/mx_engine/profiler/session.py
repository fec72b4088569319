# SPDX-License-Identifier: Apache-2.0
"""The process's profile: what is being recorded and where it is written."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mx_core import plugins
from mx_core.errors import PluginError
from mx_core.forks import ForkSafeLock, at_fork
from mx_engine._core import Recorder
from mx_engine.profiler.api_calls import ApiCalls
from mx_engine.profiler.recording import Mark, Memory, Operation, Recording, Span, Value, split_programs

#: operations kept, about 60 bytes each
CAPACITY = 4_000_000


@dataclass(frozen=True)
class Config:
    """See `mx_engine.profiler.set_config`."""

    filename: str = "profile.json"
    symbolic: bool = True
    imperative: bool = True
    memory: bool = False
    calls: bool = False
    sinks: tuple[str, ...] = ("chrome_trace",)
    dump_period: float | None = None

    @property
    def operations(self) -> bool:
        """Whether any of the engine's are recorded."""
        return self.symbolic or self.imperative


class Session:
    """Records while it runs. Threads: any."""

    def __init__(self) -> None:
        self.config = Config()
        #: read without the lock by the objects of the program, for speed
        self.running = False
        self._recorder = Recorder(CAPACITY)
        self._calls = ApiCalls(self.add)
        self._lock = ForkSafeLock()
        self._spans: list[Span] = []
        self._values: list[Value] = []
        self._marks: list[Mark] = []
        self._finished = False
        self._periodic: threading.Event | None = None
        self._managers: list[Any] = []

    def configure(self, config: Config) -> None:
        """What the next run does."""
        with self._lock:
            self.config = config

    def run(self, engine: Any = None) -> None:
        """Starts or goes on recording `engine`, by default the process's."""
        if engine is None and self.config.operations:
            from mx_core import services

            # Without the lock: making the engine may ask for it (autostart).
            engine = services.engine()
        managers = _storage_managers() if self.config.memory else []
        with self._lock:
            if self.running:
                return
            if self._finished:
                self.clear()
            self._managers = managers
            for manager in managers:
                manager.listen(CAPACITY)
            if engine is not None:
                self._recorder.attach(engine.capsule)
            self.running = True
            if self.config.calls:
                self._calls.start()
            if self.config.dump_period is not None and self._periodic is None:
                self._periodic = threading.Event()
                threading.Thread(
                    target=self._dump_periodically,
                    args=(self._periodic, self.config.dump_period),
                    name="mx profiler",
                    daemon=True,
                ).start()

    def pause(self) -> None:
        """Records nothing until the next `run`."""
        with self._lock:
            self.running = False
            self._calls.stop()
            self._recorder.detach()
            for manager in self._managers:
                manager.listen(0)

    def stop(self) -> None:
        """As `pause`, and ends the periodic dumps."""
        with self._lock:
            self.pause()
            if self._periodic is not None:
                self._periodic.set()
                self._periodic = None

    def add(self, item: Span | Value | Mark) -> None:
        """Keeps what the program itself tells."""
        if not self.running:
            return
        if isinstance(item, Span):
            self._spans.append(item)
        elif isinstance(item, Value):
            self._values.append(item)
        else:
            self._marks.append(item)

    def recording(self) -> Recording:
        """A copy of what was recorded so far."""
        operations = [Operation(*event) for event in self._recorder.events()]
        if self.config.symbolic != self.config.imperative:
            symbolic, imperative = split_programs(operations)
            operations = symbolic if self.config.symbolic else imperative
        return Recording(
            operations,
            list(self._spans),
            list(self._values),
            list(self._marks),
            [Memory(*event) for manager in self._managers for event in manager.events()],
            self._recorder.dropped + sum(manager.dropped for manager in self._managers),
        )

    def clear(self) -> None:
        """Forgets what was recorded."""
        with self._lock:
            self._recorder.clear()
            for manager in self._managers:
                manager.forget()
            self._spans, self._values, self._marks = [], [], []
            self._finished = False

    def dump(self, *, finished: bool) -> None:
        """Hands the recording to the sinks; `finished`: the next run starts a new one."""
        with self._lock:
            if finished:
                self.stop()
                self._finished = True
            recording, path = self.recording(), Path(self.config.filename)
            for name in self.config.sinks:
                write = plugins.registry("profiler_sinks").get(name).value.make()
                write(recording, path)

    def finish(self) -> None:
        """The process ends: what is still running is written."""
        if self.running:
            self.dump(finished=True)

    def _dump_periodically(self, ended: threading.Event, period: float) -> None:
        while not ended.wait(period):
            with self._lock:
                if not ended.is_set():
                    self.dump(finished=False)


def _storage_managers() -> list[Any]:
    """The storage managers of this process that tell what they do: the host's, and those in use."""
    from mx_core import services

    with contextlib.suppress(PluginError):  # there is none
        services.storage("cpu")
    return [manager for manager in services.made("storage") if hasattr(manager, "listen")]


_current = Session()


def current() -> Session:
    """The session of this process."""
    return _current


def _forget() -> None:
    # The child of a fork is not profiled.
    global _current
    session = Session()
    session.configure(_current.config)
    _current = session


at_fork(after_in_child=_forget)
