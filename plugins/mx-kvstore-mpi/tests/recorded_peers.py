# SPDX-License-Identifier: Apache-2.0
"""A communicator that records what is sent, and completes messages when a test says so; without MPI."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import mpi4py
import numpy as np

from mx_kvstore_mpi.messages import DATA, HEAD, INDICES, TEXT, Head

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


class Recorder:
    """One peer. Threads: any.

    `sent` has what has begun, as (tag, bytes); `deliver` completes the oldest. `answer` fills the oldest receive.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.changed = threading.Condition()
        self._open: deque[Handle] = deque()
        self._expected: deque[tuple[int, Any, Handle]] = deque()

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

    @property
    def heads(self) -> list[Head]:
        """Of the messages that have begun."""
        with self.changed:
            return [Head.decoded(np.frombuffer(data, np.int64), 0) for tag, data in self.sent if tag == HEAD]

    def wait_for(self, count: int) -> list[Head]:
        """The heads once there are so many."""
        with self.changed:
            found = self.changed.wait_for(lambda: sum(tag == HEAD for tag, _ in self.sent) >= count, 10.0)
        assert found, self.sent
        return self.heads

    def deliver(self, count: int) -> None:
        """Completes the oldest messages: a head and its data each."""
        with self.changed:
            for _ in range(2 * count):
                self._open.popleft().complete = True

    def answer(self, values: Any) -> int:
        """Fills the oldest receive; its tag."""
        with self.changed:
            tag, room, handle = self._expected.popleft()
        room[:] = values.view(np.uint8)
        handle.complete = True
        return tag


class Inbox:
    """Messages as they come from workers, for `Iprobe` and `Recv`; what a server sends is recorded.

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

    def Iprobe(self, source: int, tag: int, status: Any) -> bool:
        if not self._parts:
            return False
        assert self._parts[0][1] == HEAD
        status.Set_source(self._parts[0][0])
        return True

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
