# SPDX-License-Identifier: Apache-2.0
"""What a user of the profiler sees: the trace, the tables, the objects of the program."""

from __future__ import annotations

import json
import os
import re
import sys
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


def calls() -> list[str]:
    return [s.name for s in session.current().recording().spans if s.kind == "api"]


def test_calls_from_outside_are_recorded_and_those_inside_are_not(path: Path) -> None:
    engine = services.engine()
    profiler.set_config(filename=str(path), profile_api=True)
    profiler.set_state("run")
    services.device_count("cpu")
    engine.push(len, name="fails")
    with pytest.raises(TypeError), profiler.scope("first"):
        engine.wait_for_all()
    profiler.set_state("stop")
    services.device_count("cpu")
    names = calls()
    assert names.count("mx_core.device_count") == 1
    assert names.count("first:mx_engine.wait_for_all") == 1
    assert not [name for name in names if "profiler" in name]
    profiler.dump()
    spans = [e for e in trace(path, "X") if e["cat"] == "api"]
    assert len(spans) == len(names) and all(e["dur"] >= 0 for e in spans)
    assert "mx_core.device_count" in json.loads(profiler.dumps(format="json"))["Time"]["api"]


def test_calls_of_threads_that_begin_later_are_recorded() -> None:
    profiler.set_config(profile_api=True)
    profiler.set_state("run")
    thread = threading.Thread(target=services.engine)
    thread.start()
    thread.join()
    profiler.set_state("stop")
    spans = [s for s in session.current().recording().spans if s.name == "mx_core.engine"]
    assert len({s.thread for s in spans} - {threading.get_native_id()}) == 1


def test_calls_cost_nothing_when_they_are_not_asked_for() -> None:
    profiler.set_config()
    profiler.set_state("run")
    assert sys.getprofile() is None
    services.engine()
    assert calls() == []


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


class Store:
    """A distributed store, as far as profiles go."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []

    def profile_servers(self, command: str, arguments: dict[str, Any]) -> None:
        self.got.append((command, arguments))


def test_servers_are_told_through_their_store() -> None:
    with pytest.raises(ArgumentError, match="no store with servers"):
        profiler.set_state("run", profile_process="server")
    with pytest.raises(ArgumentError, match="a method profile_servers.*got int"):
        profiler.set_kvstore_handle(3)
    store = Store()
    profiler.set_kvstore_handle(store)
    try:
        profiler.set_config(filename="s.json", profile_process="server")
        profiler.set_state("run", profile_process="server")
        profiler.pause(profile_process="server")
        profiler.resume(profile_process="server")
        profiler.dump(False, profile_process="server")
    finally:
        profiler.set_kvstore_handle(None)
    assert [command for command, _ in store.got] == ["set_config", "set_state", "pause", "resume", "dump"]
    assert store.got[0][1]["filename"] == "s.json" and store.got[4][1] == {"finished": False}
    assert not session.current().running and session.current().config.filename != "s.json"


def test_names_of_old_scripts(tmp_path: Path) -> None:
    target = tmp_path / "old.json"
    with pytest.warns(DeprecationWarning, match="profiler.set_config"):
        profiler.profiler_set_config(mode="all", filename=str(target))
    with pytest.warns(DeprecationWarning, match="profiler.set_state"):
        profiler.profiler_set_state("run")
    services.engine().push(lambda: None, name="seen")
    services.engine().wait_for_all()
    with pytest.warns(DeprecationWarning, match="profiler.dump"):
        profiler.dump_profile()
    assert [e["name"] for e in trace(target, "X")] == ["seen"]
    with pytest.warns(DeprecationWarning), pytest.raises(ArgumentError, match="'symbolic' or 'all'"):
        profiler.profiler_set_config(mode="none")


#: per phase, what the trace-event format asks for besides ph, pid and name
_NEEDED = {
    "X": {"ts", "dur", "tid", "cat"},
    "b": {"ts", "id", "cat"},
    "e": {"ts", "id", "cat"},
    "C": {"ts", "args"},
    "i": {"ts", "tid", "s"},
    "M": {"args"},
}


def check_trace(path: Path) -> None:
    """The rules by which Perfetto reads: fields by phase, pairs, spans of a lane nest or follow."""
    document = json.loads(path.read_text())
    assert document["displayTimeUnit"] in ("ms", "ns")
    open_tasks: dict[tuple[Any, ...], int] = {}
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in document["traceEvents"]:
        assert set(event) >= _NEEDED[event["ph"]] | {"pid", "name"}, event
        assert isinstance(event["pid"], int) and isinstance(event["name"], str)
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(v, int | float) for v in event["args"].values())
        if event["ph"] in "be":
            key = (event["cat"], event["id"], event["name"])
            open_tasks[key] = open_tasks.get(key, 0) + (1 if event["ph"] == "b" else -1)
            assert open_tasks[key] >= 0
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    assert not any(open_tasks.values())
    for spans in lanes.values():
        ends: list[float] = []
        for begin, duration in sorted(spans, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= begin + 0.002:  # rounded to doubles of microseconds
                ends.pop()
            assert not ends or begin + duration <= ends[-1] + 0.002
            ends.append(begin + duration)


def test_the_trace_keeps_the_format(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "made", lambda kind: [Storage()])
    engine = services.engine()
    profiler.set_config(filename=str(path), profile_all=True)
    profiler.set_state("run")
    domain = profiler.Domain("d")
    variables = [engine.new_variable() for _ in range(3)]
    with domain.new_task("t"), domain.new_frame("f"), profiler.Event("e"), profiler.Event("inner"):
        for i in range(300):
            name = 'odd "name" \\ \n ü' if i == 7 else f"op{i % 5}"
            engine.push(lambda: None, reads=[variables[i % 3]], writes=[variables[(i + 1) % 3]], name=name)
        domain.new_counter("c", 1).increment(0.5)
        domain.new_marker("m").mark("thread")
        engine.wait_for_all()
    profiler.dump()
    check_trace(path)
    assert len([e for e in trace(path, "X") if e["cat"] == "operator"]) == 300


PLUGIN = """
from mx_core import hookimpl

@hookimpl
def mx_register_profiler_sinks(registry):
    registry.add("names", make)

def make():
    def write(recording, path):
        path.with_suffix(".names").write_text(" ".join(o.name for o in recording.operations))
    return write
"""


def test_a_sink_of_another_distribution(python: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "acme_sinks.py").write_text(PLUGIN)
    info = tmp_path / "acme_sinks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-sinks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mx.plugins.v1]\nacme_sinks = acme_sinks\n")
    done = python(
        f"""
        from mx_core import services
        from mx_engine import profiler
        profiler.set_config(filename={str(tmp_path / "p.json")!r}, sinks=("names", "chrome_trace"))
        profiler.set_state("run")
        for name in ("a", "b"):
            services.engine().push(lambda: None, name=name)
            services.engine().wait_for_all()
        profiler.dump()
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.names").read_text() == "a b"
    assert len(trace(tmp_path / "p.json", "X")) == 2
