# SPDX-License-Identifier: Apache-2.0
"""What a profile is written to: Chrome traces and sinks of plug-ins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_core import plugins, services
from mx_core.errors import MXNetError
from mx_engine import profiler
from mx_engine.profiler import chrome_trace
from mx_engine.profiler.recording import Operation, Recording

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


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


def test_the_trace_keeps_the_format(
    path: Path, monkeypatch: pytest.MonkeyPatch, trace: Trace, storage: Any
) -> None:
    monkeypatch.setattr(services, "made", lambda kind: [storage])
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


def test_a_sink_of_another_distribution(python: Callable[..., Any], tmp_path: Path, trace: Trace) -> None:
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


def test_rows_of_an_accelerator_are_streams_and_what_enqueues_nodes_there() -> None:
    whole = Operation("Executor", 2, 0, 5, 0, 10, 40, False)
    node = Operation("relu", 2, 0, 3, 11, 11, 12, False, "relu1")
    on_cpu = Operation("relu", 1, 0, 3, 11, 11, 12, False)
    events = chrome_trace.trace_events(Recording([whole, node, on_cpu], [], [], []))
    rows = [(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"]
    assert rows == [(0, "stream 5"), (0, "thread 3"), (1, "thread 3")]
