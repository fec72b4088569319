# SPDX-License-Identifier: Apache-2.0
"""Connections between workers and servers of one machine, for what is small or lies in memory.

A call of an actor of Ray takes a millisecond of processor time, a message of a socket a twentieth of that. The socket
has no name in the file system. A server tells its name by Ray, and both ends see that the other one is of their user.
What is lost with a connection is asked again, by Ray, until there is a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np

from mx_kvstore_ray.messages import Bytes

#: number of a request, bytes of the JSON text and of data
_HEAD = struct.Struct("<QIQ")
#: process, user and group of the other end
_CREDENTIALS = struct.Struct("iII")
_PIECE = 1 << 18

Frame = tuple[int, Any, Bytes | None]


def framed(number: int, told: Any, data: Bytes | None) -> bytes:
    """A message: JSON values, and bytes."""
    text = json.dumps(told).encode()
    held = b"" if data is None else data.tobytes()
    return _HEAD.pack(number, len(text), len(held)) + text + held


class Frames:
    """Messages out of the pieces in which they come. Threads: one at a time."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def take(self, piece: bytes) -> Iterator[Frame]:
        """The messages that a piece completes."""
        kept = self._kept
        kept += piece
        at = 0
        while len(kept) - at >= _HEAD.size:
            number, length, size = _HEAD.unpack_from(kept, at)
            text = at + _HEAD.size
            end = text + length + size
            if len(kept) < end:
                break
            told = json.loads(bytes(kept[text : text + length]))
            yield number, told, np.frombuffer(bytes(kept[end - size : end]), np.uint8) if size else None
            at = end
        del kept[:at]


def _of_other_end(end: Any) -> tuple[int, int, int]:
    """The process, user and group at the other end of a socket."""
    found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(found)
    return process, user, group


def _is_ours(end: Any) -> bool:
    """Whether the other end of a socket is a process of this user."""
    return _of_other_end(end)[1] == os.geteuid()


# ---- of a server ----

#: (command, stamp, told, data) -> what `Server.answer` gives
Answering = Callable[[str, Any, dict[str, Any], Any], Awaitable[Any]]


class Door:
    """Where workers of the same machine reach a server. Threads: one, that of its event loop.

    Parameters
    ----------
    answer : callable
        Of the server.
    """

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._listening: asyncio.AbstractServer | None = None
        self._name = ""

    async def open(self) -> str:
        """Its name; empty where the system has none without files."""
        if self._listening is None:
            name = f"mx-kvstore-{secrets.token_hex(16)}"
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listener.bind(f"\0{name}")
            except OSError:
                listener.close()
                return ""
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_unix_server(lambda: _Caller(self._answer), sock=listener)
            self._name = name
        return self._name

    def close(self) -> None:
        """Takes no more connections."""
        if self._listening is not None:
            self._listening.close()


class _Caller(asyncio.Protocol):
    """A worker that has come in."""

    def __init__(self, answer: Answering) -> None:
        self._answer, self._frames = answer, Frames()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not _is_ours(transport.get_extra_info("socket")):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        for number, (command, stamp, told), held in self._frames.take(data):
            task = asyncio.get_running_loop().create_task(
                self._serve(number, command, tuple(stamp), told, held)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, number: int, command: str, stamp: Any, told: Any, data: Any) -> None:
        try:
            error, answer, found = await self._answer(command, stamp, told, data)
        except Exception as reason:  # whatever it is, the worker must not wait for it
            error, answer, found = ("MXNetError", f"[KVStore server] {reason!r}"), {}, None
        if not self._transport.is_closing():
            self._transport.write(framed(number, [error, answer], found))

    def connection_lost(self, error: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()


# ---- of a worker ----


class Channel:
    """The way to a server of the same machine, if there is one. Threads: one calls, one of its own hears.

    Parameters
    ----------
    find : callable
        () -> the name of the server's door; blocks until the server is there. Empty, or None: there is none.
    """

    def __init__(self, find: Callable[[], str | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._count = 0
        self._pending: dict[int, Future[Any]] = {}
        self._unsent: deque[Any] = deque()
        self._closing = False
        self._settled = threading.Event()
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="mx kvstore: answers", daemon=True)
        self._thread.start()

    # ---- from the thread that calls ----

    def call(self, command: str, stamp: Any, told: dict[str, Any], data: Bytes | None) -> Future[Any] | None:
        """What becomes the answer, or a ConnectionError; None without a connection. Does not block."""
        with self._lock:
            if self._socket is None:
                return None
            self._count += 1
            future = self._pending[self._count] = Future()
            self._unsent.append(framed(self._count, [command, stamp, told], data))
            if len(self._unsent) == 1:
                self._flush(self._socket)
            if self._unsent:
                self._wake()
        return future

    def wait(self, seconds: float) -> None:
        """Waits until there is a connection, or it is known that there will be none."""
        self._settled.wait(seconds)

    def close(self) -> None:
        """Ends the connection."""
        self._closing = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def _flush(self, end: socket.socket) -> None:
        """Sends what can be sent; with the lock. Who hears notices that a connection is broken."""
        with contextlib.suppress(OSError):
            while self._unsent:
                left = memoryview(self._unsent[0])
                sent = end.send(left)
                if sent == len(left):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = left[sent:]

    # ---- the thread that hears ----

    def _run(self) -> None:
        try:
            self._connect()
        finally:
            self._settled.set()

    def _connect(self) -> None:
        refused = None
        while not self._closing:
            name = self._find()
            if not name or name == refused:
                return  # it is on another machine
            end = _connected(name)
            if end is None:
                refused = name
                continue
            with end:
                process = _of_other_end(end)[0]
                with self._lock:
                    self._socket = end
                self._settled.set()
                self._hear(end)
                with self._lock:
                    self._socket = None
                    lost = list(self._pending.values())
                    self._pending.clear()
                    self._unsent.clear()
            for future in lost:
                future.set_exception(ConnectionError(f"the connection to its process {process} has ended"))

    def _hear(self, end: socket.socket) -> None:
        """Until the end of the connection."""
        frames = Frames()
        looks = select.poll()
        looks.register(self._bell, select.POLLIN)
        while not self._closing:
            looks.register(end, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            ready = dict(looks.poll())
            if self._bell in ready:
                os.read(self._bell, 4096)
            if ready.get(end.fileno(), 0) & select.POLLOUT:
                with self._lock:
                    self._flush(end)
            if ready.get(end.fileno(), 0) & ~select.POLLOUT:
                try:
                    piece = end.recv(_PIECE)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                if not piece:
                    return
                for number, (error, told), data in frames.take(piece):
                    with self._lock:
                        future = self._pending.pop(number)
                    future.set_result((error, told, data))


def _connected(name: str) -> socket.socket | None:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.connect(f"\0{name}")
        if _is_ours(end):
            end.setblocking(False)
            return end
    except OSError:
        pass
    end.close()
    return None
