# SPDX-License-Identifier: Apache-2.0
"""Profiling the servers of a distributed store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_engine import profiler
from mx_engine.profiler import session
from mx_engine.profiler.told import run_here

pytestmark = pytest.mark.timeout(60)


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


def test_a_server_records_and_writes_a_file_of_its_own(tmp_path: Path) -> None:
    run_here(1, "set_config", {"filename": str(tmp_path / "servers.json"), "sinks": ["chrome_trace"]})
    try:
        run_here(1, "set_state", {"state": "run"})
        with profiler.Domain("servers").new_task("update"):
            run_here(1, "pause", {})
            run_here(1, "resume", {})
        run_here(1, "dump", {"finished": True})
    finally:
        profiler.set_state("stop")
        profiler.set_config()
    assert [path.name for path in tmp_path.iterdir()] == ["rank1_servers.json"]
    events = json.loads((tmp_path / "rank1_servers.json").read_text())["traceEvents"]
    assert "update" in {event["name"] for event in events}


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("dumps", {}, "expected one of set_config, set_state, pause, resume, dump, got 'dumps'"),
        ("set_state", {"state": "walk"}, "expected 'run' or 'stop', got 'walk'"),
        ("set_state", {"speed": 3}, r"\[profiler.set_state\] .*unexpected keyword argument 'speed'"),
    ],
)
def test_what_the_profiler_does_not_know_is_refused(
    command: str, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        run_here(0, command, arguments)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run_here(0, "set_config", {"filename": str(tmp_path / "no such folder" / "servers.json")})
    try:
        with pytest.raises(MXNetError, match="rank0_servers.json"):
            run_here(0, "dump", {})
    finally:
        profiler.set_config()
