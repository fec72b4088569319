# SPDX-License-Identifier: Apache-2.0
"""Tasks, frames, events, counters, markers and scopes of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_engine import profiler
from mx_engine.profiler import session

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


def test_objects_of_the_program(path: Path, trace: Trace) -> None:
    profiler.set_state("run")
    domain = profiler.Domain("training")
    task, frame = domain.new_task("epoch"), domain.new_frame("batch")
    counter = domain.new_counter("images", 5)
    task.start()
    frame.start()
    counter += 3
    counter -= 1
    for scope in ("global", "process", "thread", "task", "marker"):
        domain.new_marker("best").mark(scope)
    frame.stop()
    task.stop()
    with profiler.Event("decode") as event:
        assert str(event) == "decode"
    profiler.dump()
    begin, end = trace(path, "b")[0], trace(path, "e")[0]
    assert begin["name"] == "epoch" and begin["id"] == end["id"] and begin["ts"] <= end["ts"]
    assert [(e["cat"], e["name"]) for e in trace(path, "X")] == [("frame", "batch"), ("event", "decode")]
    assert [e["args"] for e in trace(path, "C")] == [{"images": 5}, {"images": 8}, {"images": 7}]
    assert [(e["name"], e["s"]) for e in trace(path, "i")] == [("best", each) for each in "gpttt"]
    names = {e["args"]["name"] for e in trace(path, "M")}
    assert {"training", "event"} <= names


def test_increments_of_many_threads_are_not_lost() -> None:
    counter = profiler.Domain("d").new_counter("n")
    profiler.set_state("run")
    threads = [threading.Thread(target=lambda: [counter.increment() for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = session.current().recording().values
    assert [v.value for v in values] == list(range(1, 2001))


def test_scopes_nest_and_end() -> None:
    profiler.set_state("run")
    domain = profiler.Domain("d")
    with profiler.scope("a"), profiler.scope("b:") as both:
        assert both == "a:b:"
        with domain.new_task("t"):
            pass
        with profiler.scope("c", append_mode=False):
            domain.new_marker("m").mark()
        with profiler.scope() as unnamed:
            assert unnamed == "a:b:"
    with profiler.scope() as alone:
        assert alone == "<unk>:"
    with profiler.Event("e"):
        pass
    recording = session.current().recording()
    assert [s.name for s in recording.spans] == ["a:b:t", "e"]
    assert [m.name for m in recording.marks] == ["c:m"]
