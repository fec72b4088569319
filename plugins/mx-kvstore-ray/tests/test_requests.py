# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker, over a wire that loses requests and answers, to servers that are killed."""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore_ray import requests
from mx_kvstore_ray.direct import Frames, framed
from mx_kvstore_ray.errors import PeerLostError, ProtocolError
from mx_kvstore_ray.faults import Fault
from mx_kvstore_ray.parts import parts
from mx_kvstore_ray.requests import Request, Requests
from mx_kvstore_ray.server import Server
from mx_kvstore_ray.settings import ServerPlace

FLOAT = dtypes.code(np.dtype("float32"), "test")


class Lost(Exception):
    """What Ray raises when an actor is gone."""


class Wire:
    """Servers on a thread of their own, and what lies between them and workers."""

    def __init__(self, servers: int, workers: int, folder: str, seed: int = 0, losses: float = 0.0) -> None:
        self.losses = losses
        self.sent: list[tuple[int, str]] = []
        self._random = random.Random(seed)
        self._places = [
            ServerPlace(n, servers, workers, "stop", f"{folder}/{n}", 20.0, 1e9, "job")
            for n in range(servers)
        ]
        self._servers = [Server(each) for each in self._places]
        self._loop = asyncio.new_event_loop()
        self._killed = [self._loop.create_future() for _ in range(servers)]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def send(self, rank: int, server: int, command: str, told: Any, data: Any) -> Future[Any]:
        self.sent.append((server, command))
        told, data = _travelled(told, data)
        return asyncio.run_coroutine_threadsafe(self._answer(rank, server, command, told, data), self._loop)

    async def _answer(self, rank: int, server: int, command: str, told: Any, data: Any) -> Any:
        if self._random.random() < self.losses:
            raise Lost("before")
        answer = asyncio.ensure_future(self._servers[server].answer(command, (rank, 0), told, data))
        killed = self._killed[server]
        await asyncio.wait({answer, killed}, return_when=asyncio.FIRST_COMPLETED)
        if killed.done():
            answer.cancel()
            raise Lost("killed")
        found = answer.result()
        if self._random.random() < self.losses:
            raise Lost("after")
        if self._random.random() < self.losses / 4:
            killed.set_result(None)
            self._killed[server] = self._loop.create_future()
            self._servers[server].close()
            self._servers[server] = Server(self._places[server])
        (error, told), data = _travelled(found[:2], found[2])
        return error, told, data

    def tell(self, command: str, **told: Any) -> None:
        for server in self._servers:
            asyncio.run_coroutine_threadsafe(server.answer(command, None, told, None), self._loop).result(
                20.0
            )

    def stop(self, held: threading.Event) -> None:
        """All servers do nothing until `held` is set."""
        self._loop.call_soon_threadsafe(held.wait, 30.0)

    def close(self) -> None:
        async def end() -> None:
            waiting = asyncio.all_tasks() - {asyncio.current_task()}
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(20.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for server in self._servers:
            server.close()


def _travelled(told: Any, data: Any) -> tuple[Any, Any]:
    """What comes out of a socket, where no bytes are no data."""
    ((_, told, data),) = Frames().take(framed(0, told, data))
    return told, data


class Worker:
    """The requests of a worker, and the values of its keys."""

    def __init__(
        self, wire: Wire, rank: int, sizes: dict[str, int], servers: int, memory: bool = True
    ) -> None:
        self.rank, self.fault = rank, Fault()
        self.values = {key: np.zeros(size, np.float32) for key, size in sizes.items()}
        self.parts = {key: parts(n, size, servers, 1000) for n, (key, size) in enumerate(sizes.items())}
        self.requests = Requests(
            lambda *what: wire.send(rank, *what), (Lost,), servers, self.fault, 20.0, memory
        )

    def ask(self, command: str, key: str, priority: int = 0, **more: Any) -> Future[None]:
        over: Future[None] = Future()

        def done(error: MXNetError | None) -> None:
            over.set_result(None) if error is None else over.set_exception(error)

        def told(part: Any) -> dict[str, Any]:
            return {"store": 0, "key": key, "shape": [part.end - part.begin], "code": FLOAT, **more}

        values = self.values[key]
        given = values.copy() if command != "pull" else None
        self.requests.ask(Request(command, key, self.parts[key], told, done, given, [values]), priority)
        return over

    def push(self, key: str, n: int, gradient: Any) -> Future[None]:
        self.values[key][:] = gradient
        return self.ask("push", key, priority=-n, n=n, rates={}, how=None, keys=1)

    def begin(self) -> None:
        for over in [self.ask("init" if self.rank == 0 else "pull", key) for key in self.values]:
            over.result(30.0)


@pytest.fixture
def wires() -> Iterator[Any]:
    """wires(servers, workers, **more): a wire, closed after the test."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made: list[Any] = []
    with tempfile.TemporaryDirectory(dir=where) as folder:

        def make(servers: int, workers: int, **more: Any) -> Wire:
            made.append(Wire(servers, workers, f"{folder}/{len(made)}", **more))
            return made[-1]

        yield make
        for wire in made:
            wire.close()


@pytest.mark.parametrize(("seed", "memory"), [(0, True), (1, True), (2, True), (3, False)])
def test_sums_are_exact_whatever_is_lost(
    wires: Any, monkeypatch: pytest.MonkeyPatch, seed: int, memory: bool
) -> None:
    monkeypatch.setattr(requests, "_PAUSE", 0.001)
    sizes = {"a": 3, "b": 1500, "c": 200_000, "d": 1, "e": 0}
    wire = wires(2, 2, seed=seed, losses=0.2)
    workers = [Worker(wire, rank, sizes, 2, memory) for rank in (0, 1)]
    values = np.random.default_rng(seed)

    def train(worker: Worker) -> None:
        worker.begin()
        for n in range(1, 16):
            pushes = [worker.push(key, n, gradients[n, worker.rank, key]) for key in sizes]
            for over in pushes:
                over.result(30.0)
            for key in sizes:
                found.setdefault((n, key), []).append(worker.values[key].copy())

    found: dict[Any, list[Any]] = {}
    gradients = {
        (n, rank, key): values.integers(-100, 100, size).astype(np.float32)
        for n in range(1, 16) for rank in (0, 1) for key, size in sizes.items()
    }  # fmt: skip
    threads = [threading.Thread(target=train, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (n, key), both in found.items():
        assert len(both) == 2
        for each in both:
            np.testing.assert_array_equal(each, gradients[n, 0, key] + gradients[n, 1, key])
    assert len(found) == 15 * len(sizes)
    for worker in workers:
        worker.requests.stop(5.0)


@pytest.mark.parametrize(("memory", "messages"), [(True, 1), (False, 2)])
def test_small_pushes_travel_together_and_large_ones_in_memory_or_alone(
    wires: Any, memory: bool, messages: int
) -> None:
    wire = wires(1, 1)
    sizes = {**{f"small {n}": 10 for n in range(30)}, "large": 100_000}
    worker = Worker(wire, 0, sizes, 1, memory)
    worker.begin()
    original, held = worker.requests._take, threading.Event()

    def slow(*what: Any) -> None:
        held.wait(10.0)
        original(*what)

    worker.requests._take = slow  # type: ignore[method-assign]
    wake = worker.push("small 0", 1, 0)  # the thread is busy with its answer
    while not wire.sent.count((0, "push")):
        time.sleep(0.01)
    time.sleep(0.1)
    wire.sent.clear()
    pushes = [worker.push(key, 1, 1) for key in sizes if key != "small 0"]
    held.set()
    for over in [wake, *pushes]:
        over.result(30.0)
    assert wire.sent == [(0, "push")] * messages, "29 small ones, and a large one"
    assert all((worker.values[key] == 1).all() for key in sizes if key != "small 0")
    worker.requests.stop(5.0)


class Blind:
    """Memory of a process on another machine."""

    def at(self, where: Any, size: int) -> None:
        return None


@pytest.mark.parametrize("who", ["rounds", "requests"])
def test_what_is_not_seen_in_memory_is_sent(wires: Any, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    monkeypatch.setattr(f"mx_kvstore_ray.{who}.Others", Blind)
    wire = wires(2, 2)
    sizes = {"small": 5, "large": 300_000}
    workers = [Worker(wire, rank, sizes, 2) for rank in (0, 1)]
    for worker in workers:
        worker.begin()
    for n in range(1, 4):
        wire.sent.clear()
        overs = [worker.push(key, n, n + worker.rank) for worker in workers for key in sizes]
        for over in overs:
            over.result(30.0)
        for worker in workers:
            assert all((worker.values[key] == 2 * n + 1).all() for key in sizes)
            assert not any(worker.requests._seen)
        assert n == 1 or len(wire.sent) <= 2 * 3, "it is not tried again"
    for worker in workers:
        worker.requests.stop(5.0)


def test_a_failure_ends_all_that_waits_and_all_that_comes(wires: Any) -> None:
    wire = wires(2, 2)
    worker = Worker(wire, 0, {"w": 2000}, 2)
    worker.begin()
    waits = worker.push("w", 1, 1)
    command: Future[Any] = Future()

    def meet() -> None:
        try:
            worker.requests.command("barrier", {"n": 1, "called": "barrier", "keys": 1}, servers=(0,))
        except MXNetError as error:
            command.set_exception(error)

    thread = threading.Thread(target=meet)
    thread.start()
    time.sleep(0.05)
    assert not waits.done() and not command.done()
    wire.tell("lost", rank=1, start=0, then="stop", why="[KVStore] worker 1 was struck by lightning")
    for over in (waits, command):
        with pytest.raises(PeerLostError, match="worker 1 was struck by lightning"):
            over.result(10.0)
    thread.join()
    with pytest.raises(PeerLostError, match="lightning"):
        worker.ask("pull", "w").result(10.0)
    with pytest.raises(PeerLostError, match="lightning"):
        worker.requests.command("rounds", {"store": 0})


def test_a_failure_at_one_server_is_that_of_who_waits_at_another(wires: Any) -> None:
    wire = wires(2, 3)
    workers = [Worker(wire, rank, {"a": 4, "b": 4}, 2) for rank in (0, 1, 2)]
    for worker in workers:
        worker.begin()
    assert [part.server for key in "ab" for part in workers[0].parts[key]] == [0, 1]
    calls = [workers[1].push("b", 1, 1.0), workers[2].push("a", 1, 1.0), workers[0].push("a", 2, 1.0)]
    said = set()
    for call in calls:
        with pytest.raises(ProtocolError) as found:
            call.result(20.0)
        said.add(str(found.value))
    assert len(said) == 1 and "expected push 1 of worker 0, got 2" in said.pop()
    for worker in workers:
        worker.requests.stop(5.0)


def test_what_a_server_refuses_is_the_error_of_the_call_alone(wires: Any) -> None:
    worker = Worker(wires(1, 1), 0, {"w": 3}, 1)
    worker.begin()
    with pytest.raises(MXNetError, match="no optimizer is set"):
        worker.requests.command("save", {"store": 0, "dump": False})
    worker.push("w", 1, 5).result(10.0)
    assert (worker.values["w"] == 5).all()
    worker.requests.stop(5.0)
    with pytest.raises(MXNetError, match="closed"):
        worker.push("w", 2, 5).result(10.0)


def test_a_long_wait_is_told_with_who_is_missing(
    wires: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "_WARN", 0.2)
    wire = wires(2, 2)
    workers = [Worker(wire, rank, {"a": 2000, "b": 3}, 2) for rank in (0, 1)]
    for worker in workers:
        worker.begin()
    with caplog.at_level("WARNING", "mx.kvstore"):
        overs = [workers[0].push("a", 1, 1), workers[1].push("b", 1, 1)]
        limit = time.monotonic() + 20.0
        while len(caplog.messages) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
    both = (
        "(worker 0 waits: push 1 of key 'a', for worker 1; worker 1 waits: push 1 of key 'b', for worker 0)"
    )
    assert len(caplog.messages) == 2 and all(both in each for each in caplog.messages), caplog.messages
    overs += [workers[0].push("b", 1, 1), workers[1].push("a", 1, 1)]
    for over in overs:
        over.result(10.0)
    for worker in workers:
        worker.requests.stop(5.0)


def test_a_long_wait_for_a_server_that_says_nothing_is_told(
    wires: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "_WARN", 0.2)
    monkeypatch.setattr(requests, "_ASKED", 0.2)
    wire = wires(1, 1)
    worker = Worker(wire, 0, {"w": 3}, 1)
    worker.begin()
    held = threading.Event()
    with caplog.at_level("WARNING", "mx.kvstore"):
        wire.stop(held)
        over = worker.push("w", 1, 5)
        limit = time.monotonic() + 20.0
        while not caplog.messages and time.monotonic() < limit:
            time.sleep(0.05)
        held.set()
    assert re.search(r"waits for \d+ s: w, for server 0 \(no server says who waits\)", caplog.text), (
        caplog.text
    )
    over.result(10.0)
    worker.requests.stop(5.0)


def test_a_server_that_stays_away_is_lost(wires: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PAUSE", 0.01)
    monkeypatch.setattr(requests, "GIVEN_UP", 0.2)
    wire = wires(1, 1)
    worker = Worker(wire, 0, {"w": 3}, 1)
    worker.begin()
    wire.losses = 1.0
    with pytest.raises(PeerLostError, match="server 0 is lost, and did not come back"):
        worker.push("w", 1, 5).result(10.0)
