# SPDX-License-Identifier: Apache-2.0
"""Recordings as tables: how often, how long."""

from __future__ import annotations

import json
from dataclasses import dataclass

from mx_core.errors import ArgumentError
from mx_engine.profiler.chrome_trace import device_name
from mx_engine.profiler.recording import Recording

SORT_KEYS = ("total", "avg", "min", "max", "count")


@dataclass
class Line:
    """One name; times in ms. Threads: one at a time."""

    count: int = 0
    total: float = 0.0
    min: float = float("inf")
    max: float = 0.0

    @property
    def avg(self) -> float:
        return self.total / self.count

    def add(self, ms: float) -> None:
        self.count += 1
        self.total += ms
        self.min = min(self.min, ms)
        self.max = max(self.max, ms)


Tables = dict[str, dict[str, Line]]


def tables(recording: Recording) -> Tables:
    """Category -> name -> line: run times of operations, the times they were queued, and the
    program's own tasks, frames and events by domain."""
    found: Tables = {}

    def add(category: str, name: str, ns: int) -> None:
        found.setdefault(category, {}).setdefault(name, Line()).add(ns / 1e6)

    for o in recording.operations:
        add("operator", o.name, o.finished - o.started)
    for o in recording.operations:
        if o.label is None:  # a part was not queued
            add("operator queue", o.name, o.started - o.pushed)
    for s in recording.spans:
        add(s.domain, s.name, s.finished - s.started)
    return found


def render(recording: Recording, format: str, sort_by: str, ascending: bool) -> str:
    """The tables as text or JSON; arguments as in `mx_engine.profiler.dumps`."""
    if format not in ("table", "json"):
        raise ArgumentError(f"[profiler.dumps] format: expected 'table' or 'json', got {format!r}")
    if sort_by not in SORT_KEYS:
        known = ", ".join(SORT_KEYS)
        raise ArgumentError(f"[profiler.dumps] sort_by: expected one of {known}, got {sort_by!r}")
    ordered = {
        category: dict(
            sorted(lines.items(), key=lambda item: getattr(item[1], sort_by), reverse=not ascending)
        )
        for category, lines in tables(recording).items()
    }
    memory = {
        category: dict(
            sorted(lines.items(), key=lambda item: getattr(item[1], sort_by), reverse=not ascending)
        )
        for category, lines in usage(recording).items()
    }
    if format == "json":
        return _as_json(ordered, memory)
    return _as_text(ordered) + _memory_text(memory)


ALLOCATED, IN_USE = "Allocations", "Device Storage"


@dataclass
class Usage:
    """Allocations of a tag, or what a device held after each allocation and release; bytes. Threads: one at a time.

    `last` is what the device holds in the end.
    """

    count: int = 0
    total: int = 0
    min: int = 0
    max: int = 0
    last: int = 0

    @property
    def avg(self) -> float:
        return self.total / self.count

    def add(self, size: int) -> None:
        self.min = min(self.min, size) if self.count else size
        self.max = max(self.max, size)
        self.count += 1
        self.total += size
        self.last = size


def usage(recording: Recording) -> dict[str, dict[str, Usage]]:
    """Allocations by tag, and what each device held."""
    found: dict[str, dict[str, Usage]] = {}
    for event in recording.memory:
        if event.bytes > 0:
            found.setdefault(ALLOCATED, {}).setdefault(event.tag or "untagged", Usage()).add(event.bytes)
    for event in recording.memory:
        name = f"Memory: {device_name(event)}"
        found.setdefault(IN_USE, {}).setdefault(name, Usage()).add(event.in_use)
    return found


def _memory_text(memory: dict[str, dict[str, Usage]]) -> str:
    if not memory:
        return ""
    rows = [(f"allocated: {name}", u.count, u.total, u.max) for name, u in memory.get(ALLOCATED, {}).items()]
    rows += [
        (name.replace("Memory:", "in use:"), u.count, u.last, u.max)
        for name, u in memory.get(IN_USE, {}).items()
    ]
    width = max(24, *(len(row[0]) for row in rows))
    heads = ("Total Count", "Bytes", "Largest")
    lines = ["", "memory", "======", f"{'Name':<{width}}" + "".join(f"{head:>15}" for head in heads)]
    lines += [f"{name:<{width}}{count:>15}{total:>15}{peak:>15}" for name, count, total, peak in rows]
    return "\n".join(lines) + "\n"


def _as_json(ordered: Tables, memory: dict[str, dict[str, Usage]]) -> str:
    time = {
        category: {
            name: {
                "Count": line.count,
                "Total": line.total,
                "Min": line.min,
                "Max": line.max,
                "Avg": line.avg,
            }
            for name, line in lines.items()
        }
        for category, lines in ordered.items()
    }
    sizes: dict[str, dict[str, dict[str, float]]] = {
        category: {
            name: {"Count": u.count, "Min": u.min, "Max": u.max, "Avg": u.avg} for name, u in lines.items()
        }
        for category, lines in memory.items()
    }
    for name, line in memory.get(ALLOCATED, {}).items():
        sizes[ALLOCATED][name]["Total"] = line.total
    return json.dumps({"Time": time, "Memory": sizes, "Unit": {"Time": "ms", "Memory": "bytes"}})


def _as_text(ordered: Tables) -> str:
    text = ["Profile statistics, times in ms"]
    for category, lines in ordered.items():
        width = max(24, *map(len, lines))
        text += ["", category, "=" * len(category)]
        heads = ("Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
        text.append(f"{'Name':<{width}}" + "".join(f"{head:>15}" for head in heads))
        for name, line in lines.items():
            times = "".join(f"{t:>15.4f}" for t in (line.total, line.min, line.max, line.avg))
            text.append(f"{name:<{width}}{line.count:>15}{times}")
    return "\n".join(text) + "\n"
