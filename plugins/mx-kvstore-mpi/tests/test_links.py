# SPDX-License-Identifier: Apache-2.0
"""Workers that are connected to each other by TCP, and who is not let in."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.errors import ArgumentError, SettingError
from mx_kvstore_mpi import links, settings
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.links import Network, _links, _Meeting, own_address, wanted
from mx_kvstore_mpi.protocol import connect

HERE = Network("secret", "test 1", "127.0.0.1", "127.0.0.1", 1)
#: so that workers of one machine are connected
BY_TCP = {"MX_KVSTORE_SHARED_MEMORY": "0", "MX_KVSTORE_TRANSPORT": "tcp", "UCX_TLS": "self,sm"}


def together(workers: int, run: Callable[[int, _Meeting, list[list[str]]], Any]) -> list[Any]:
    """What each worker's `run(rank, meeting, addresses)` gives, all of them at once."""
    meetings = [_Meeting(HERE, rank, workers) for rank in range(workers)]
    addresses = [["127.0.0.1", str(meeting.port)] for meeting in meetings]

    def one(rank: int) -> Any:
        with meetings[rank] as meeting:
            return run(rank, meeting, addresses)

    with ThreadPoolExecutor(workers) as pool:
        return [done.result(20.0) for done in [pool.submit(one, rank) for rank in range(workers)]]


def test_workers_connect_to_all_others_and_sum() -> None:
    def run(rank: int, meeting: _Meeting, addresses: list[list[str]]) -> Any:
        made = _links(meeting.connections(addresses), rank, 3)
        values, total = np.full(100_000, rank + 1, np.float32), np.zeros(100_000, np.float32)
        assert made.sum(dtypes.code("float32"), [values.view(np.uint8)], [total.view(np.uint8)])
        return total

    for total in together(3, run):
        assert (total == 6).all()


@pytest.mark.parametrize(
    "hello",
    [
        {"kind": "terms", "rank": 1, "job": "test 2"},
        {"kind": "words", "rank": 1, "job": "test 1"},
        {"kind": "terms", "rank": 0, "job": "test 1"},
        {"kind": "terms", "rank": 2, "job": "test 1"},
        {"kind": "terms", "rank": "1", "job": "test 1"},
    ],
)
def test_only_workers_of_the_job_are_let_in(monkeypatch: pytest.MonkeyPatch, hello: dict[str, Any]) -> None:
    monkeypatch.setattr(links, "CONNECT", 1.0)
    with _Meeting(HERE, 0, 2) as meeting:
        channel = connect(("127.0.0.1", meeting.port), "secret")
        channel.send(hello)
        assert channel.receive() is None
        channel.close()
        with pytest.raises(ProtocolError, match="refused this process"):
            connect(("127.0.0.1", meeting.port), "guess")
        with socket.create_connection(("127.0.0.1", meeting.port)):  # which says nothing
            with pytest.raises(TimeoutError, match=re.escape("workers [1] did not connect to worker 0")):
                meeting.connections([[], []])


def test_one_connection_of_a_kind_is_taken() -> None:
    with _Meeting(HERE, 0, 2) as meeting:
        said = {"kind": "terms", "rank": 1, "job": "test 1"}
        first, second = (connect(("127.0.0.1", meeting.port), "secret") for _ in range(2))
        first.send(said)
        limit = time.monotonic() + 10.0
        while not meeting._found and time.monotonic() < limit:
            time.sleep(0.01)
        second.send(said)
        assert second.receive() is None
        first.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            first.receive()
        first.close()
        second.close()


class _Flaky:
    """A listener of which the first connections have gone before they are accepted."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener, self._times = listener, times

    def accept(self) -> Any:
        if self._times:
            self._times -= 1
            raise ConnectionAbortedError
        return self._listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def test_a_connection_that_goes_at_once_hinders_no_other() -> None:
    meeting = _Meeting(HERE, 0, 2)
    flaky: Any = _Flaky(meeting._listener, 3)
    meeting._listener = flaky
    with meeting:
        ends = [connect(("127.0.0.1", meeting.port), "secret") for _ in range(2)]
        for end, use in zip(ends, ("terms", "sums"), strict=True):
            end.send({"kind": use, "rank": 1, "job": "test 1"})
        found = meeting.connections([[], []])
        assert len(found) == 2
        for channel in (*found.values(), *ends):
            channel.close()


def test_connections_of_which_no_links_come_are_closed() -> None:
    with _Meeting(HERE, 0, 2) as meeting:
        ends = [connect(("127.0.0.1", meeting.port), "secret") for _ in range(2)]
        for end, use in zip(ends, ("terms", "sums"), strict=True):
            end.send({"kind": use, "rank": 1, "job": "test 1"})
        found = meeting.connections([[], []])
        with pytest.raises(ArgumentError, match="rank: expected one of 2, got 2"):
            _links(found, 2, 2)
        for end in ends:
            assert end.receive() is None, "the other side sees the end"
            end.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
def test_who_is_reached_by_loopback_listens_for_both_kinds_of_addresses() -> None:
    for address in ("127.0.0.1", "::1"):
        with _Meeting(Network("secret", "test 1", address, address, 2), 0, 2) as meeting:
            for host in ("127.0.0.1", "::1"):
                connect((host, meeting.port), "secret").close()


def test_a_worker_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with _Meeting(HERE, 1, 2) as meeting, pytest.raises(OSError):
        meeting.connections([["127.0.0.1", str(port)], []])


def test_which_transport_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("MX_KVSTORE_TRANSPORT", raising=False)
    monkeypatch.setattr(links, "_FAST", (str(tmp_path / "none"),))
    hosts = Network("secret", "test 1", "10.0.0.1", "10.0.0.2", 2)
    assert wanted(hosts) and not wanted(HERE) and not wanted(None)
    (tmp_path / "device").mkdir()
    monkeypatch.setattr(links, "_FAST", (str(tmp_path),))
    assert not wanted(hosts), "a faster network is for MPI"
    monkeypatch.setenv("MX_KVSTORE_TRANSPORT", "tcp")
    assert wanted(hosts) and wanted(HERE) and not wanted(None)
    monkeypatch.setenv("MX_KVSTORE_TRANSPORT", "mpi")
    assert not wanted(hosts)
    monkeypatch.setenv("MX_KVSTORE_TRANSPORT", "udp")
    with pytest.raises(SettingError, match="expected tcp or mpi, got 'udp'"):
        settings.transport()


def test_the_interface_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MX_KVSTORE_INTERFACE", "DMLC_INTERFACE"):
        monkeypatch.delenv(name, raising=False)
    assert own_address("10.0.0.1") == "10.0.0.1"
    monkeypatch.setenv("DMLC_INTERFACE", "lo")
    assert own_address("10.0.0.1") == "127.0.0.1"
    monkeypatch.setenv("MX_KVSTORE_INTERFACE", "none9")
    with pytest.raises(SettingError, match="one of lo.*got 'none9': No such device"):
        own_address("10.0.0.1")


@pytest.mark.long
def test_an_interface_that_is_not_there_ends_the_job(start: Any) -> None:
    job = start("import mx\nmx.kv.create('dist_sync')", 2, MX_KVSTORE_INTERFACE="none9", **BY_TCP)
    assert job.wait() != 0
    assert "got 'none9'" in job.text


SUMS = """
import os
import mx
from mx_kvstore.exchange import Links
from mx_kvstore_mpi import links
if FAILS and os.environ["MX_KV_RANK"] == "1":
    def no(self, addresses):
        raise OSError("no way there")
    links._Meeting.connections = no
links.CONNECT = 5.0
store = mx.kv.create("dist_sync")
for size in (10, 1_000_000):
    out = mx.nd.zeros((size,))
    store.init(size, out)
    store.pushpull(size, mx.nd.full((size,), store.rank + 1), out=out)
    assert (out.asnumpy() == sum(range(store.num_workers + 1))).all()
assert isinstance(store._rounds._transport, Links) != FAILS
store.barrier()
print("summed", store.rank)
"""


@pytest.mark.long
@pytest.mark.parametrize("fails", [False, True])
def test_where_one_worker_is_not_connected_all_use_mpi(start: Any, fails: bool) -> None:
    job = start(f"FAILS = {fails}\n{SUMS}", 2, **BY_TCP)
    assert job.wait() == 0, job.text
    job.wait_for("summed", 2)
    assert ("so MPI is used: no way there" in job.text) == fails, job.text


LOOP = """
import os, time
import mx
store = mx.kv.create("dist_sync")
value, out = mx.nd.ones((SIZE,)), mx.nd.zeros((SIZE,))
store.init("a", out)
print("pid", os.getpid(), "of", store.rank, flush=True)
try:
    while True:
        store.pushpull("a", value, out=out)
        assert (out.asnumpy() == store.num_workers).all(), out
except mx.MXNetError as error:
    print("ended", store.rank, time.time(), type(error).__name__, error, flush=True)
    raise
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "how", "size"),
    [
        (2, signal.SIGKILL, 4_000_000),
        pytest.param(3, signal.SIGKILL, 100, marks=pytest.mark.slow),
        pytest.param(3, signal.SIGKILL, 4_000_000, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGSTOP, 4_000_000, marks=pytest.mark.slow),
    ],
)
def test_a_lost_worker_is_named(start: Any, workers: int, how: int, size: int) -> None:
    job = start(LOOP.replace("SIZE", str(size)), workers, **BY_TCP)
    found = dict(map(reversed, job.wait_for(r"pid (\d+) of (\d)", workers)))
    time.sleep(0.5)
    os.kill(int(found["1"]), how)
    begin = time.time()
    ended = job.wait_for(r"ended (\d) (\S+) (\w+) (.*)", workers - 1, 40.0)
    if how == signal.SIGSTOP:
        os.kill(int(found["1"]), signal.SIGKILL)
    assert job.wait(40) != 0
    for _, at, kind, message in ended:
        assert kind == "PeerLostError" and re.search("worker 1 ", message), message
        assert float(at) - begin < 15.0, message
