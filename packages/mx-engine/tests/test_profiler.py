# SPDX-License-Identifier: Apache-2.0
"""What a user of the profiler sees: the trace, the tables, the objects of the program."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mx_core import plugins, services
from mx_core.errors import ArgumentError, MXNetError
from mx_engine import profiler
from mx_engine.profiler import session
from mx_engine.profiler.recording import Recording

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts and ends without a recording."""
    yield
    profiler.stop()
    session.current().clear()
    profiler.set_config()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "profile.json"
    profiler.set_config(filename=str(target))
    return target


def trace(path: Path, phase: str) -> list[dict[str, Any]]:
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == phase]


def test_operations_with_queue_and_run_time(path: Path) -> None:
    engine = services.engine()
    variable = engine.new_variable()
    profiler.set_state("run")
    for name in ("first", "second"):
        engine.push(lambda: time.sleep(0.02), writes=[variable], name=name)
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


def test_a_failed_operation_is_marked(path: Path) -> None:
    engine = services.engine()
    profiler.set_state("run")
    engine.push(lambda: 1 / 0, name="division")
    with pytest.raises(ZeroDivisionError):
        engine.wait_for_all()
    profiler.dump()
    assert trace(path, "X")[0]["args"]["failed"]


def test_only_what_happens_while_it_runs_is_recorded(path: Path) -> None:
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


def test_dumps_add_up_until_one_is_finished(path: Path) -> None:
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


def test_objects_of_the_program(path: Path) -> None:
    profiler.set_state("run")
    domain = profiler.Domain("training")
    task, frame = domain.new_task("epoch"), domain.new_frame("batch")
    counter = domain.new_counter("images", 5)
    task.start()
    frame.start()
    counter += 3
    counter -= 1
    domain.new_marker("best").mark("global")
    frame.stop()
    task.stop()
    with profiler.Event("decode") as event:
        assert str(event) == "decode"
    profiler.dump()
    begin, end = trace(path, "b")[0], trace(path, "e")[0]
    assert begin["name"] == "epoch" and begin["id"] == end["id"] and begin["ts"] <= end["ts"]
    assert [(e["cat"], e["name"]) for e in trace(path, "X")] == [("frame", "batch"), ("event", "decode")]
    assert [e["args"] for e in trace(path, "C")] == [{"images": 5}, {"images": 8}, {"images": 7}]
    assert [(e["name"], e["s"]) for e in trace(path, "i")] == [("best", "g")]
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


def test_tables() -> None:
    engine = services.engine()
    profiler.set_state("run")
    for _ in range(3):
        engine.push(lambda: None, name="often")
    engine.push(lambda: time.sleep(0.02), name="long")
    engine.wait_for_all()
    table = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert list(table) == ["long", "often"]
    assert table["often"]["Count"] == 3
    assert table["long"]["Total"] >= 20
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
        (lambda: profiler.set_config(profile_process="server"), "expected 'worker'"),
        (lambda: profiler.dumps(format="xml"), "expected 'table' or 'json', got 'xml'"),
        (lambda: profiler.dumps(sort_by="name"), "expected one of total, avg, min, max, count"),
        (lambda: profiler.Event("e").stop(), "event 'e' was stopped, but not started"),
        (lambda: profiler.Marker(profiler.Domain("d"), "m").mark("room"), "scope: expected one of"),
    ],
)
def test_bad_arguments(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says.replace("'", ".")):
        call()


def test_sinks_are_called_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[Recording, Path]] = []
    spec = plugins.registry("profiler_sinks").get("chrome_trace").value
    assert spec.name == "chrome_trace"
    monkeypatch.setattr(
        "mx_engine.profiler.chrome_trace.write", lambda recording, path: got.append((recording, path))
    )
    profiler.set_config(filename="elsewhere.json")
    profiler.set_state("run")
    services.engine().push(lambda: None, name="seen")
    services.engine().wait_for_all()
    profiler.dump()
    ((recording, path),) = got
    assert [o.name for o in recording.operations] == ["seen"]
    assert path == Path("elsewhere.json")
    profiler.set_config(sinks=("nonesuch",))
    with pytest.raises(MXNetError, match="nonesuch"):
        profiler.dump()


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


def test_periodic_dumps(path: Path) -> None:
    profiler.set_config(filename=str(path), continuous_dump=True, dump_period=0.02)
    profiler.set_state("run")
    services.engine().push(lambda: None, name="seen")
    services.engine().wait_for_all()
    end = time.monotonic() + 20
    while not path.exists() or not trace(path, "X"):
        assert time.monotonic() < end
        time.sleep(0.01)
    profiler.set_state("stop")


def test_autostart_writes_at_exit(python: Callable[..., Any], tmp_path: Path) -> None:
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


def test_a_forked_child_is_not_profiled(python: Callable[..., Any], tmp_path: Path) -> None:
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


class Storage:
    """A storage manager that tells: one allocation of weights, one of nothing named, one release."""

    dropped = 0

    def __init__(self) -> None:
        self.capacity = 0

    def listen(self, capacity: int) -> None:
        self.capacity = capacity

    def events(self) -> list[tuple[int, int, int, int, int, int, str | None]]:
        return [
            (1000, 1, 0, 64, 64, 0, "weights"),
            (2000, 1, 0, 8, 72, 0, None),
            (3000, 1, 0, -64, 8, 64, None),
        ]

    def forget(self) -> None:
        """Nothing to forget."""


def test_memory_is_recorded_where_it_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    monkeypatch.setattr(services, "made", lambda kind: [storage, object()])
    profiler.set_config(filename=str(path), profile_memory=True)
    profiler.set_state("run")
    assert storage.capacity > 0
    text = profiler.dumps()
    assert re.search(r"allocated: weights +1 +64 +64", text)
    assert re.search(r"in use: cpu/0 +3 +8 +72", text)
    sizes = json.loads(profiler.dumps(format="json"))["Memory"]
    assert sizes["in use: cpu/0"] == {"Count": 3, "Bytes": 8, "Largest": 72}
    profiler.dump()
    assert storage.capacity == 0
    assert [(e["name"], e["args"]) for e in trace(path, "C")] == [
        ("memory of cpu/0", {"in use": 64, "pooled": 0}),
        ("memory of cpu/0", {"in use": 72, "pooled": 0}),
        ("memory of cpu/0", {"in use": 8, "pooled": 64}),
    ]


def test_memory_is_not_recorded_otherwise(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    monkeypatch.setattr(services, "made", lambda kind: [storage])
    profiler.set_state("run")
    assert storage.capacity == 0
    assert "memory" not in profiler.dumps()
