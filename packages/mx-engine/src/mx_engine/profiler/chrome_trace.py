# SPDX-License-Identifier: Apache-2.0
"""Recordings as Chrome trace JSON, which Perfetto and chrome://tracing open.

A process per device and per domain, a thread per executing thread, times in microseconds. An accelerator's operations
have a thread per stream, the one that waits for it; the threads that enqueue nodes there have their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mx_core.context import Context
from mx_core.files import atomic_write
from mx_engine.profiler.recording import Memory, Operation, Recording

_SCOPES = {"global": "g", "process": "p", "thread": "t"}
#: categories that are not called after their domain
_DURATION = {"event": "event", "frame": "frame", "api": "api"}


class _Processes:
    """Numbers for devices and domains, and the records that name them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lanes: set[tuple[int, int]] = set()
        self.names: list[dict[str, Any]] = []

    def number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers)
            self.names.append(_named("process_name", known, 0, name))
        return known

    def lane(self, process: int, operation: Operation) -> int:
        thread = operation.thread
        if (process, thread) not in self._lanes:
            self._lanes.add((process, thread))
            what = "stream" if _on_stream(operation) else "thread"
            self.names.append(_named("thread_name", process, thread, f"{what} {thread}"))
        return thread


def _on_stream(operation: Operation) -> bool:
    """Whether an operation as a whole, no part of one, ran on an accelerator."""
    return operation.label is None and not device_name(operation).startswith("cpu")


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def device_name(event: Operation | Memory) -> str:
    """`cpu/0`, `gpu/1`, ..."""
    kind = Context.devtype2str.get(event.device_type, f"device {event.device_type}")
    return f"{kind}/{event.device_id}"


def trace_events(recording: Recording) -> Iterator[dict[str, Any]]:
    """The trace's records; those that name processes and threads come last."""
    processes = _Processes()
    for o in recording.operations:
        pid = processes.number(device_name(o))
        yield {
            "ph": "X",
            "cat": "operator",
            "name": o.label or o.name,
            "pid": pid,
            "tid": processes.lane(pid, o),
            "ts": o.started / 1e3,
            "dur": (o.finished - o.started) / 1e3,
            "args": {"operator": o.name, "queued_us": (o.started - o.pushed) / 1e3, "failed": o.failed},
        }
    for i, s in enumerate(recording.spans):
        common = {"name": s.name, "pid": processes.number(s.domain), "tid": s.thread}
        if s.kind == "task":  # tasks may overlap on a thread
            common |= {"cat": s.domain, "id": i}
            yield {"ph": "b", "ts": s.started / 1e3, **common}
            yield {"ph": "e", "ts": s.finished / 1e3, **common}
        else:
            common["cat"] = _DURATION[s.kind]
            yield {"ph": "X", "ts": s.started / 1e3, "dur": (s.finished - s.started) / 1e3, **common}
    for v in recording.values:
        yield {
            "ph": "C",
            "cat": v.domain,
            "name": v.name,
            "pid": processes.number(v.domain),
            "ts": v.moment / 1e3,
            "args": {v.name: v.value},
        }
    for memory in recording.memory:
        device = device_name(memory)
        yield {
            "ph": "C",
            "cat": "memory",
            "name": f"memory of {device}",
            "pid": processes.number(device),
            "ts": memory.moment / 1e3,
            "args": {"in use": memory.in_use, "pooled": memory.pooled},
        }
    for m in recording.marks:
        yield {
            "ph": "i",
            "cat": m.domain,
            "name": m.name,
            "pid": processes.number(m.domain),
            "tid": m.thread,
            "ts": m.moment / 1e3,
            "s": _SCOPES[m.scope],
        }
    yield from processes.names


def write(recording: Recording, path: Path) -> None:
    """Writes the trace; readers of `path` see the former file or the whole new one."""
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for i, event in enumerate(trace_events(recording)):
            file.write((",\n" if i else "") + json.dumps(event))
        dropped = f'"dropped_operations": {recording.dropped}'
        file.write(f'\n], "otherData": {{{dropped}}}}}\n')
