# SPDX-License-Identifier: Apache-2.0
"""Which operations are recorded, when they are written, and the tables."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_core import services
from mx_core.errors import ArgumentError
from mx_engine import _core, profiler
from mx_engine.profiler import session
from mx_engine.profiler.recording import Operation, split_programs

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


def test_operations_with_queue_and_run_time(path: Path, trace: Trace) -> None:
    engine = services.engine()
    variable = engine.new_variable()
    both_pushed = threading.Event()
    profiler.set_state("run")
    for name in ("first", "second"):
        engine.push(lambda: both_pushed.wait(20) and time.sleep(0.02), writes=[variable], name=name)
    both_pushed.set()
    engine.wait_for_all()
    profiler.dump()
    first, second = trace(path, "X")
    assert (first["name"], second["name"]) == ("first", "second")
    assert first["cat"] == "operator"
    assert first["dur"] >= 20_000
    assert second["ts"] >= first["ts"] + first["dur"]
    assert second["args"]["queued_us"] >= 15_000
    assert not second["args"]["failed"]
    names = {e["pid"]: e["args"]["name"] for e in trace(path, "M") if e["name"] == "process_name"}
    assert names[first["pid"]] == "cpu/0"
    lanes = {(e["pid"], e["tid"]) for e in trace(path, "M") if e["name"] == "thread_name"}
    assert (first["pid"], first["tid"]) in lanes


def test_a_failed_operation_is_marked(path: Path, trace: Trace) -> None:
    engine = services.engine()
    profiler.set_state("run")
    engine.push(lambda: 1 / 0, name="division")
    with pytest.raises(ZeroDivisionError):
        engine.wait_for_all()
    profiler.dump()
    assert trace(path, "X")[0]["args"]["failed"]


def test_only_what_happens_while_it_runs_is_recorded(path: Path, trace: Trace) -> None:
    engine = services.engine()

    def work(name: str) -> None:
        engine.push(lambda: None, name=name)
        with profiler.Event(name):
            engine.wait_for_all()

    work("before")
    profiler.set_state("run")
    work("first")
    profiler.pause()
    work("paused")
    profiler.resume()
    work("second")
    profiler.set_state("stop")
    work("after")
    profiler.dump()
    assert sorted(e["name"] for e in trace(path, "X")) == ["first", "first", "second", "second"]


def test_dumps_add_up_until_one_is_finished(path: Path, trace: Trace) -> None:
    engine = services.engine()

    def names() -> list[str]:
        return [e["name"] for e in trace(path, "X")]

    profiler.set_state("run")
    engine.push(lambda: None, name="a")
    engine.wait_for_all()
    profiler.dump(finished=False)
    assert names() == ["a"]
    engine.push(lambda: None, name="b")
    engine.wait_for_all()
    profiler.dump()
    assert names() == ["a", "b"]
    profiler.set_state("run")
    engine.push(lambda: None, name="c")
    engine.wait_for_all()
    profiler.dump()
    assert names() == ["c"]
    assert os.listdir(path.parent) == ["profile.json"]


def test_a_failed_dump_keeps_the_former_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("former")
    profiler.set_state("run")
    profiler.Domain("d").new_counter("c", 1)

    def fail(*_: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(json, "dumps", fail)
    with pytest.raises(OSError, match="disk full"):
        profiler.dump()
    assert path.read_text() == "former"
    assert os.listdir(path.parent) == ["profile.json"]


def test_tables() -> None:
    engine = services.engine()
    profiler.set_state("run")
    for _ in range(3):
        engine.push(lambda: None, name="often")
    engine.push(lambda: time.sleep(0.2), name="long")
    engine.wait_for_all()
    table = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert list(table) == ["long", "often"]
    assert table["often"]["Count"] == 3
    assert table["long"]["Total"] >= 200
    line = table["often"]
    assert line["Min"] <= line["Avg"] <= line["Max"]
    assert line["Total"] == pytest.approx(3 * line["Avg"])
    by_count = json.loads(profiler.dumps(format="json", sort_by="count"))["Time"]["operator"]
    assert list(by_count) == ["often", "long"]
    text = profiler.dumps(reset=True, sort_by="count", ascending=True)
    assert "operator queue" in text
    rows = [row.split() for row in text.splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("often", "long")][:2] == ["long", "often"]
    assert "often" not in profiler.dumps()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: profiler.set_state("go"), "expected 'run' or 'stop', got 'go'"),
        (lambda: profiler.set_config(dump_period=0), "dump_period: expected > 0, got 0"),
        (lambda: profiler.set_config(profile_process="scheduler"), "expected 'worker'"),
        (lambda: profiler.dumps(format="xml"), "expected 'table' or 'json', got 'xml'"),
        (lambda: profiler.dumps(sort_by="name"), "expected one of total, avg, min, max, count"),
        (lambda: profiler.Event("e").stop(), "event 'e' was stopped, but not started"),
        (lambda: profiler.Marker(profiler.Domain("d"), "m").mark("room"), "scope: expected one of"),
    ],
)
def test_bad_arguments(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says.replace("'", ".")):
        call()


class Events:
    """A recorder that has seen a program with two nodes, an operation inside one of them, and others."""

    dropped = 0

    def events(self) -> list[tuple[Any, ...]]:
        def event(name: str, thread: int, started: int, finished: int, label: str | None = None) -> Any:
            return (name, 1, 0, thread, started, started, finished, False, label)

        return [
            event("add", 1, 0, 5),
            event("program", 1, 10, 50),
            event("copyto", 2, 11, 60),
            event("dot", 1, 12, 30, "fc1"),
            event("relu", 1, 30, 50, "act1"),
            event("mul", 1, 51, 55),
            event("tanh", 3, 70, 80, "lost its program"),
        ]


PROGRAM = ["program", "dot", "relu", "tanh"]


OTHERS = ["add", "copyto", "mul"]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"profile_imperative": False}, PROGRAM),
        ({"profile_symbolic": False}, OTHERS),
        ({}, ["add", "program", "copyto", "dot", "relu", "mul", "tanh"]),
        (
            {"profile_symbolic": False, "profile_all": True},
            ["add", "program", "copyto", "dot", "relu", "mul", "tanh"],
        ),
    ],
)
def test_programs_and_other_operations_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, bool], names: list[str]
) -> None:
    profiler.set_config(**config)
    monkeypatch.setattr(session.current(), "_recorder", Events())
    assert [o.name for o in session.current().recording().operations] == names
    monkeypatch.undo()


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CAPACITY", 3)
    small = session.Session()
    small.run()
    for _ in range(5):
        services.engine().push(lambda: None)
    services.engine().wait_for_all()
    small.stop()
    recording = small.recording()
    assert len(recording.operations) == 3
    assert recording.dropped == 2


def test_periodic_dumps(path: Path, trace: Trace) -> None:
    profiler.set_config(filename=str(path), continuous_dump=True, dump_period=0.02)
    profiler.set_state("run")
    services.engine().push(lambda: None, name="seen")
    services.engine().wait_for_all()
    end = time.monotonic() + 20
    while not path.exists() or not trace(path, "X"):
        assert time.monotonic() < end
        time.sleep(0.01)
    profiler.set_state("stop")


def test_autostart_writes_at_exit(python: Callable[..., Any], tmp_path: Path, trace: Trace) -> None:
    done = python(
        f"""
        import os
        os.chdir({str(tmp_path)!r})
        from mx_core import services
        services.engine().push(lambda: None, name="seen")
        """,
        MXNET_PROFILER_AUTOSTART="1",
    )
    assert done.returncode == 0, done.stderr
    assert [e["name"] for e in trace(tmp_path / "profile.json", "X")] == ["seen"]


def test_a_forked_child_is_not_profiled(python: Callable[..., Any], tmp_path: Path, trace: Trace) -> None:
    done = python(
        f"""
        import os, sys
        from mx_core import services
        from mx_engine import profiler
        profiler.set_config(filename={str(tmp_path / "p.json")!r})
        profiler.set_state("run")
        engine = services.engine()
        child = os.fork()
        engine.push(lambda: None, name="child" if child == 0 else "parent")
        engine.wait_for_all()
        if child == 0:
            assert "operator" not in profiler.dumps()
            profiler.set_state("run")
            engine.push(lambda: None, name="own")
            engine.wait_for_all()
            assert "own" in profiler.dumps()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert done.returncode == 0, done.stderr
    assert [e["name"] for e in trace(tmp_path / "p.json", "X")] == ["parent"]


def test_parts_belong_to_the_innermost_operation_around_them() -> None:
    def operation(name: str, started: int, finished: int, label: str | None = None) -> Operation:
        return Operation(name, 1, 0, 7, 0, started, finished, False, label)

    outer, program = operation("outer", 0, 100), operation("program", 10, 60)
    parts = [operation("conv", 20, 30, "conv0"), operation("relu", 30, 40, "relu0")]
    after, alone = operation("after", 70, 80), operation("alone", 200, 210)
    programs, others = split_programs([outer, program, *parts, after, alone])
    assert programs == [program, *parts] and others == [outer, after, alone]


def test_a_recorder_is_attached_and_detached_by_several_threads() -> None:
    engine = services.engine()
    recorder, end = _core.Recorder(100), time.monotonic() + 0.5

    def turn() -> None:
        while time.monotonic() < end:
            recorder.attach(engine.capsule)
            recorder.detach()

    threads = [threading.Thread(target=turn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not recorder.attached
    variable = engine.new_variable()
    engine.push(lambda: None, writes=[variable])
    assert engine.wait_for_variable(variable, timeout=20)
