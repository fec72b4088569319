# SPDX-License-Identifier: Apache-2.0
"""Profiling the servers of a distributed store."""

from __future__ import annotations

from typing import Any

import pytest

from mx_core.errors import ArgumentError
from mx_engine import profiler
from mx_engine.profiler import session

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
