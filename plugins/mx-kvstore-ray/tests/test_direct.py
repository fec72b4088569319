# SPDX-License-Identifier: Apache-2.0
"""Connections of one machine: answers, a server that ends or does not read, a process of another user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_kvstore_ray import direct
from mx_kvstore_ray.direct import Channel, Door, Frames, framed

SERVER = """
import asyncio, sys
from mx_kvstore_ray.direct import Door

async def answer(command, stamp, told, data):
    if command == "fail":
        return ("MXNetError", "no"), {}, None
    if command == "break":
        raise KeyError("something")
    return None, {**told, "stamp": stamp}, data

async def main():
    print(await Door(answer).open(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


class Servers:
    """A server and, when it has ended, the next one."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self) -> str:
        self.processes.append(
            subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        )
        stdout = self.processes[-1].stdout
        assert stdout is not None
        return stdout.readline().strip()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.end()


def called(channel: Channel, *what: Any) -> Any:
    """The future of a call, once there is a connection."""
    limit = time.monotonic() + 60.0
    while time.monotonic() < limit:
        found = channel.call(*what)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("there is no connection")


def test_messages_come_in_any_pieces() -> None:
    sent = [(n, {"n": n}, np.full(100 * n, n, np.uint8) if n else None) for n in range(4)]
    wire = b"".join(framed(*each) for each in sent)
    for length in (1, 7, 100, len(wire)):
        frames = Frames()
        found = [each for at in range(0, len(wire), length) for each in frames.take(wire[at : at + length])]
        assert [(number, told) for number, told, _ in found] == [(number, told) for number, told, _ in sent]
        for (*_, data), (*_, given) in zip(found, sent, strict=True):
            assert data is None if given is None else (data == given).all()


def test_calls_are_answered_and_fail_with_the_server_and_the_next_one_is_found(servers: Servers) -> None:
    channel = Channel(servers.begin)
    channel.wait(60.0)
    future = channel.call("push", (1, 2), {}, None)
    assert future is not None and future.result(60.0)[0] is None
    data = np.arange(200, dtype=np.uint8)
    futures = [called(channel, "push", (1, 2), {"n": n}, data if n % 2 else None) for n in range(50)]
    for n, future in enumerate(futures):
        error, told, found = future.result(60.0)
        assert error is None and told == {"n": n, "stamp": [1, 2]}
        assert (found == data).all() if n % 2 else found is None
    assert called(channel, "fail", (1, 2), {}, None).result(60.0)[0] == ["MXNetError", "no"]
    kind, text = called(channel, "break", (1, 2), {}, None).result(60.0)[0]
    assert kind == "MXNetError" and "KeyError('something')" in text
    os.kill(servers.processes[0].pid, signal.SIGSTOP)
    waiting = [called(channel, "push", (1, 2), {}, None) for _ in range(3)]
    servers.processes[0].kill()
    for future in waiting:
        with pytest.raises(ConnectionError, match=f"its process {servers.processes[0].pid} has ended"):
            future.result(60.0)
    assert called(channel, "push", (1, 3), {}, None).result(60.0) == (None, {"stamp": [1, 3]}, None)
    channel.close()
    channel._thread.join(60.0)
    assert not channel._thread.is_alive() and channel.call("push", (1, 3), {}, None) is None


def test_a_server_that_does_not_read_blocks_nobody(servers: Servers) -> None:
    channel = Channel(servers.begin)
    called(channel, "push", (0, 0), {}, None).result(60.0)
    os.kill(servers.processes[0].pid, signal.SIGSTOP)
    data = np.arange(100_000).view(np.uint8)
    futures = [channel.call("push", (0, 0), {"n": n}, data) for n in range(20)]  # more than a socket holds
    time.sleep(0.2)
    assert not any(future is None or future.done() for future in futures)
    os.kill(servers.processes[0].pid, signal.SIGCONT)
    for n, future in enumerate(futures):
        assert future is not None
        _, told, found = future.result(60.0)
        assert told["n"] == n and (found == data).all()
    channel.close()


@pytest.mark.parametrize("name", ["", "mx-kvstore-of-nobody"])
def test_without_a_door_there_is_no_connection(name: str) -> None:
    channel = Channel(lambda: name)
    channel.wait(60.0)
    channel._thread.join(60.0)
    assert not channel._thread.is_alive() and channel.call("push", (0, 0), {}, None) is None


@pytest.mark.parametrize("who", ["server", "worker"])
def test_a_process_of_another_user_is_refused(
    monkeypatch: pytest.MonkeyPatch, servers: Servers, who: str
) -> None:
    if who == "worker":
        name = servers.begin()
        monkeypatch.setattr(direct, "_is_ours", lambda end: False)
        assert direct._connected(name) is None
        return

    async def program() -> None:
        async def answer(*what: Any) -> Any:
            raise AssertionError("it was heard")

        door = Door(answer)
        name = await door.open()
        monkeypatch.setattr(direct, "_is_ours", lambda end: False)
        reader, writer = await asyncio.open_unix_connection(f"\0{name}")
        writer.write(framed(1, ["push", [0, 0], {}], None))
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        door.close()

    asyncio.run(program())
