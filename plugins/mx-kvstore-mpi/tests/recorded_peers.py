# SPDX-License-Identifier: Apache-2.0
"""A communicator that records what is sent, and completes messages when a test says so; without MPI."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import mpi4py
import numpy as np

from mx_kvstore_mpi.messages import DATA, HEAD, INDICES, TEXT, VALUES, Encoded, Head

mpi4py.rc.initialize = mpi4py.rc.finalize = False  # servers use its constants


class Handle:
    """A request of MPI."""

    def __init__(self) -> None:
        self.complete = False

    def Test(self) -> bool:
        return self.complete


def ended(requests: list[Handle]) -> list[int]:
    """Places of those that are complete, as `messages.ended` gives them of MPI's."""
    return [place for place, each in enumerate(requests) if each.complete]


def there(comm: Any, tag: int) -> tuple[int, int] | None:
    """Of the next message of this tag: from whom, and bytes, as `messages.there` asks MPI."""
    found: tuple[int, int] | None = comm.there(tag)
    return found


class Recorder:
    """One peer. Threads: any.

    `sent` has what has begun, as (tag, bytes); `deliver` completes the oldest. `answer` fills the oldest receive.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.changed = threading.Condition()
        self._open: deque[Handle] = deque()
        self._expected: deque[tuple[int, Any, Handle]] = deque()
        self._values: deque[bytes] = deque()

    def Split(self, color: int, key: int) -> Recorder:
        return self

    def Get_rank(self) -> int:
        return 0

    def Isend(self, values: Any, to: int, tag: int) -> Handle:
        handle = Handle()
        with self.changed:
            self.sent.append((tag, values.tobytes()))
            self._open.append(handle)
            self.changed.notify_all()
        return handle

    def Irecv(self, room: Any, source: int, tag: int) -> Handle:
        handle = Handle()
        with self.changed:
            self._expected.append((tag, room, handle))
        return handle

    def there(self, tag: int) -> tuple[int, int] | None:
        """Servers follow two workers."""
        with self.changed:
            return (2, len(self._values[0])) if self._values else None

    def Recv(self, room: Any, source: int, tag: int) -> None:
        assert (source, tag) == (2, VALUES)
        with self.changed:
            room[:] = np.frombuffer(self._values.popleft(), np.uint8)

    def send_values(self, *found: Encoded) -> None:
        """As a server sends small values."""
        with self.changed:
            self._values.append(b"".join(bytes(part) for each in found for part in each.record))

    @property
    def heads(self) -> list[Head]:
        """Of the messages that have begun, where packets have nothing but heads."""
        with self.changed:
            packets = [np.frombuffer(data, np.uint8) for tag, data in self.sent if tag == HEAD]
        return [Head.decoded(packet, at, 0) for packet in packets for at in range(0, packet.size, 80)]

    def wait_for(self, count: int) -> list[Head]:
        """The heads once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.heads) >= count, 10.0), self.sent
        return self.heads

    def wait_until(self, ready: Callable[[list[tuple[int, bytes]]], bool]) -> None:
        """Waits until what was sent is so."""
        with self.changed:
            assert self.changed.wait_for(lambda: ready(self.sent), 10.0), self.sent

    def deliver(self, count: int) -> None:
        """Completes the oldest messages: a packet and what follows it, each."""
        with self.changed:
            for _ in range(2 * count):
                self._open.popleft().complete = True

    def deliver_all(self) -> None:
        """Completes all that has begun."""
        with self.changed:
            while self._open:
                self._open.popleft().complete = True

    def answer(self, values: Any) -> int:
        """Fills the oldest receive; its tag."""
        with self.changed:
            tag, room, handle = self._expected.popleft()
        room[:] = values.view(np.uint8)
        handle.complete = True
        return tag


class Inbox:
    """Messages as they come from workers; what a server sends is recorded.

    Nobody takes what it sends before `take_all`.
    """

    def __init__(self) -> None:
        self._parts: deque[tuple[int, int, bytes]] = deque()
        self.answers: list[tuple[int, int, bytes]] = []
        self.handles: list[Handle] = []
        self.taking = False

    def put(self, source: int, sent: list[tuple[int, bytes]]) -> None:
        """What a worker has sent, as a `Recorder` has it."""
        self._parts.extend((source, tag, data) for tag, data in sent)

    @property
    def empty(self) -> bool:
        return not self._parts

    def Split(self, color: int, key: int) -> Inbox:
        return self

    def Get_rank(self) -> int:
        return 2

    def there(self, tag: int) -> tuple[int, int] | None:
        if not self._parts:
            return None
        source, its, data = self._parts[0]
        assert tag == its == HEAD
        return source, len(data)

    def Recv(self, room: Any, source: int, tag: int) -> None:
        place = next(at for at, each in enumerate(self._parts) if each[:2] == (source, tag))
        data = self._parts[place][2]
        del self._parts[place]
        assert tag in (HEAD, TEXT, DATA, INDICES) and room.nbytes == len(data)
        room.view(np.uint8)[:] = np.frombuffer(data, np.uint8)

    def Isend(self, values: Any, to: int, tag: int) -> Handle:
        handle = Handle()
        handle.complete = self.taking
        self.answers.append((to, tag, values.tobytes()))
        self.handles.append(handle)
        return handle

    def take_all(self) -> None:
        """Completes what was sent and what will be."""
        self.taking = True
        for handle in self.handles:
            handle.complete = True
