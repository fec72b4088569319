# SPDX-License-Identifier: Apache-2.0
"""The contents of a profile, for any writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Operation(NamedTuple):
    """One finished operation of the engine, or a part of one; times in ns of `time.monotonic_ns`."""

    name: str
    device_type: int
    device_id: int
    thread: int
    pushed: int
    started: int
    finished: int
    failed: bool
    label: str | None = None  # of a part, a node of a program say: which one


def split_programs(operations: list[Operation]) -> tuple[list[Operation], list[Operation]]:
    """Operations that ran programs with the parts of these, and all other ones.

    Parameters
    ----------
    operations : list of Operation
        Sorted by `started`.
    """
    programs: set[int] = set()
    running: dict[int, list[int]] = {}  # by thread: indices of operations around the present one
    for i, operation in enumerate(operations):
        around = running.setdefault(operation.thread, [])
        while around and operations[around[-1]].finished < operation.finished:
            around.pop()
        if operation.label is None:
            around.append(i)
            continue
        programs.add(i)
        if around:
            programs.add(around[-1])
    return (
        [o for i, o in enumerate(operations) if i in programs],
        [o for i, o in enumerate(operations) if i not in programs],
    )


class Span(NamedTuple):
    """A finished task, frame, event or call of the program; times as in `Operation`."""

    kind: str  # task, frame, event, api
    domain: str
    name: str
    thread: int
    started: int
    finished: int


class Value(NamedTuple):
    """A counter's value from `moment` on."""

    domain: str
    name: str
    moment: int
    value: float


class Mark(NamedTuple):
    """An instant."""

    domain: str
    name: str
    thread: int
    moment: int
    scope: str  # global, process, thread


class Memory(NamedTuple):
    """An allocation, or a release (negative bytes); time as in `Operation`."""

    moment: int
    device_type: int
    device_id: int
    bytes: int
    in_use: int  # on the device, afterwards
    pooled: int
    tag: str | None


@dataclass(frozen=True)
class Recording:
    """Everything recorded; what profiler sinks get."""

    operations: list[Operation]
    spans: list[Span]
    values: list[Value]
    marks: list[Mark]
    memory: list[Memory] = field(default_factory=list)
    #: operations and memory events that were not kept because the recording was full
    dropped: int = 0
