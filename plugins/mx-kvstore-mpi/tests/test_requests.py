# SPDX-License-Identifier: Apache-2.0
"""Workers and servers with recorded peers: which slices are sent when, what servers answer, and what they refuse."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import recorded_peers
from recorded_peers import Inbox, Recorder

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore.compression import Compression
from mx_kvstore.storage import ROW_SPARSE
from mx_kvstore_mpi import server, waiting
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.messages import DATA, HEAD, VALUE, Command, Head, encoded, encoded_value, receive, send
from mx_kvstore_mpi.parts import Part
from mx_kvstore_mpi.requests import Request, Requests, together
from mx_kvstore_mpi.server import Server
from mx_kvstore_mpi.waiting import Waiter

#: elements of a slice
STEP = 4


@pytest.fixture(autouse=True)
def two_slices_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes they are, each a message of its own."""
    monkeypatch.setattr("mx_kvstore_mpi.outbox._BUSY", 0)
    monkeypatch.setattr("mx_kvstore_mpi.messages._SMALL", 0)
    monkeypatch.setattr("mx_kvstore_mpi.messages.ended", recorded_peers.ended)
    monkeypatch.setattr("mx_kvstore_mpi.messages.there", recorded_peers.there)


class Nobody:
    """The other processes, of which nothing is known."""

    def say(self, status: str) -> None: ...

    def statuses(self) -> list[str]:
        return []

    def gone(self, among: Any = None) -> str:
        return ""

    def refuse(self, text: str) -> None: ...


class Worker:
    """Requests on a thread of their own, to one server that is recorded."""

    def __init__(self) -> None:
        self.peer = Recorder()
        self.fault = Fault()
        self.requests = Requests(Waiter(self.fault, Nobody(), 30.0), 2, 1, STEP)
        self.ended: dict[int, Any] = {}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(MXNetError):  # such as the test's end
            self.requests.run(self.peer)

    def push(
        self, number: int, size: int, priority: int, command: Command = Command.PUSH, **more: Any
    ) -> Any:
        """Pushes 0, 1, 2, …; what becomes the value."""
        values = np.zeros(size, np.float32)

        def done(error: MXNetError | None) -> None:
            with self._changed:
                self.ended[number] = error
                self._changed.notify_all()

        receive = values if command in (Command.PUSH, Command.PULL) else None
        given = None if command is Command.PULL else np.arange(size, dtype=np.float32)
        request = Request(number, f"{number}", command, [Part(0, 0, size)], given, receive, done, **more)
        self.requests.ask([request], priority)
        return values

    def take(self) -> None:
        """Waits until the thread has what was pushed."""
        while self.requests._queue:
            time.sleep(0.001)

    def wait_for(self, number: int) -> Any:
        """How a request has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: number in self.ended, 10.0)
        return self.ended[number]

    def end(self) -> None:
        self.fault.set(MXNetError("the test has ended"))
        self._thread.join()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


def test_the_first_layer_overtakes_slices_of_a_large_value(worker: Worker) -> None:
    large = worker.push(7, 22, -1)
    heads = worker.peer.wait_for(2)
    assert [(head.key, head.begin, head.step, head.priority) for head in heads] == [
        (7, 0, 4, -1),
        (7, 4, 4, -1),
    ]
    small = worker.push(3, 2, 0)
    worker.take()
    worker.peer.deliver(1)
    assert worker.peer.wait_for(3)[2].key == 3
    worker.peer.deliver(2)
    rest = worker.peer.wait_for(5)[3:]
    worker.peer.deliver(2)
    rest = worker.peer.wait_for(7)[3:]
    assert [(head.key, head.begin, head.data) for head in rest] == [
        (7, 8, 16),
        (7, 12, 16),
        (7, 16, 16),
        (7, 20, 8),
    ]
    worker.peer.deliver(2)
    places = [0, 4, None, 8, 12, 16, 20]  # of what is expected: in the order in which slices were sent
    for place in places:
        values = np.full(2 if place in (None, 20) else 4, 100 + (place or 0), np.float32)
        assert worker.peer.answer(values) == VALUE + (3 if place is None else 7)
    assert worker.wait_for(3) is None and worker.wait_for(7) is None
    assert small.tolist() == [100, 100]
    assert large.tolist() == [100 + index // 4 * 4 for index in range(22)]


def test_mpi_is_asked_often_while_it_sends(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TCP it sends only what a socket takes each time it is asked."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    worker.push(0, 4, 0)
    worker.peer.wait_for(1)
    while len(pauses) < 50:
        time.sleep(0.001)
    assert max(pauses) == 50e-6
    worker.peer.deliver(1)
    while max(pauses) < 1e-3:  # there is nothing to do but to wait for the answer
        time.sleep(0.001)


def test_mpi_is_asked_for_the_first_slice_of_each_value_only(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def ended(requests: Any) -> list[int]:
        asked.append(len(requests))
        return recorded_peers.ended(requests)

    monkeypatch.setattr("mx_kvstore_mpi.messages.ended", ended)
    values = [worker.push(number, 40, 0) for number in (0, 1)]
    for sent in range(2, 20, 2):
        worker.peer.wait_for(sent)
        worker.peer.deliver(2)
    worker.peer.wait_for(20)
    assert len(worker.peer._expected) == 20 and max(asked) <= 2
    for place in range(20):
        worker.peer.answer(np.full(4, place, np.float32))
    worker.peer.deliver(2)
    for number in (0, 1):
        assert worker.wait_for(number) is None
        assert values[number].tolist() == [10 * number + index // 4 for index in range(40)]


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker for which three numbers are a small value, and four are not."""
    monkeypatch.setattr("mx_kvstore_mpi.messages._SMALL", 12)
    monkeypatch.setattr("mx_kvstore_mpi.outbox._BUSY", 1 << 20)
    made = Worker()
    yield made
    made.end()


def test_small_values_travel_together(packing: Worker) -> None:
    worker = packing
    with worker.requests._changed:  # the thread takes all of them at once
        values = [worker.push(number, 3, -number) for number in range(40)]
        large = worker.push(40, 5, 1)
    server = Inbox()
    worker.peer.wait_until(lambda sent: len(sent) >= 3)
    assert [tag for tag, _ in worker.peer.sent] == [HEAD, DATA, HEAD]
    server.put(0, worker.peer.sent)
    found = [
        message
        for _, size in iter(lambda: server.there(HEAD), None)
        for message in receive(server, 0, size, lambda head, text: np.empty(head.data, np.uint8))
    ]
    assert [message.head.key for message in found] == [40, 40, *range(40)], "the urgent one first"
    assert all(message.data.view(np.float32).tolist() == [0, 1, 2] for message in found[2:])
    worker.peer.deliver_all()
    worker.peer.answer(np.full(4, 9, np.float32))
    worker.peer.answer(np.full(1, 9, np.float32))
    for numbers in (range(25), range(25, 40)):
        answers = [encoded_value(number, np.full(3, number, np.float32), True) for number in numbers]
        worker.peer.send_values(*answers)
    assert all(worker.wait_for(number) is None for number in range(41))
    assert [value.tolist() for value in values] == [[number] * 3 for number in range(40)]
    assert large.tolist() == [9] * 5


def test_an_operation_of_several_requests_ends_with_the_last_of_them() -> None:
    found: list[Any] = []
    ended = together(3, found.append)
    ended(None)
    ended(ProtocolError("first"))
    assert not found
    ended(ProtocolError("second"))
    assert [str(error) for error in found] == ["first"]


def test_what_is_pushed_only_is_done_when_all_slices_are_sent(worker: Worker) -> None:
    worker.push(0, 6, 0, Command.PUSH_ONLY)
    worker.peer.wait_for(2)
    worker.peer.deliver(1)
    assert 0 not in worker.ended
    worker.peer.deliver(1)
    assert worker.wait_for(0) is None


def test_a_pull_is_one_message_and_comes_in_slices(worker: Worker) -> None:
    values = worker.push(0, 6, 5, Command.PULL)
    (head,) = worker.peer.wait_for(1)
    assert (head.command, head.priority, head.step, head.data) == (Command.PULL, 5, 4, 0)
    for part in (np.ones(4, np.float32), np.full(2, 2, np.float32)):
        worker.peer.answer(part)
    with worker.peer.changed:
        worker.peer._open.popleft().complete = True
    assert worker.wait_for(0) is None and values.tolist() == [1, 1, 1, 1, 2, 2]


def test_a_failure_ends_what_waits_and_what_is_half_sent(worker: Worker) -> None:
    worker.push(0, 50, 0)
    worker.push(1, 50, 0)
    worker.peer.wait_for(2)
    worker.fault.set(ProtocolError("gone"))
    assert "gone" in str(worker.wait_for(0)) and "gone" in str(worker.wait_for(1))


# ---- the server ----


class Serving:
    """A server with two workers that are recorded."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.comm = Inbox()
        self.job = Job(2, 1)
        self.said: list[str] = []
        member = SimpleNamespace(left=set(), refuse=self.told.append, say=self.said.append)
        self._joined: Any = SimpleNamespace(job=self.job, fault=Fault(), membership=member, rank=0)
        self.server = Server(self._joined)

    def put(self, source: int, head: Head, text: Any = None, data: Any = None, indices: Any = None) -> None:
        peer = Recorder()
        send(peer, 2, HEAD, [encoded(head, text, data, indices)])
        self.comm.put(source, peer.sent)

    def start(self, sizes: dict[int, int]) -> None:
        """First values, which are 0."""
        for key, size in sizes.items():
            text = {
                "store": 0,
                "key": f"k{key}",
                "shape": [size],
                "whole": [size],
                "dtype": dtypes.code("float32"),
            }
            self.put(0, Head(Command.INIT, key, 0, 0, STEP), text, np.zeros(size, np.float32))

    def push(self, source: int, key: int, values: Any, begin: int, priority: int = 0) -> None:
        part = np.array(values[begin : begin + STEP], np.float32)
        self.put(source, Head(Command.PUSH, key, priority, begin, STEP), None, part)

    def serve(self, until: Callable[[], bool]) -> None:
        """Until all messages are read, and something is so."""
        timer = threading.Timer(10.0, self.server.stop)
        timer.start()
        waiting = threading.Thread(target=self._stop_at, args=(until,))
        waiting.start()
        try:
            self.server.run(self.comm)
        finally:
            self.server.stop()
            timer.cancel()
            waiting.join()

    def _stop_at(self, until: Callable[[], bool]) -> None:
        while not (self.comm.empty and until()) and not self.server._stopping.wait(0.01):
            pass
        self.server.stop()

    def answers(self, to: int) -> list[tuple[int, list[float]]]:
        """Keys and values that a worker was sent."""
        return [
            (tag - VALUE, np.frombuffer(data, np.float32).tolist())
            for who, tag, data in self.comm.answers
            if who == to
        ]


def test_each_slice_is_answered_once_all_workers_have_pushed_it() -> None:
    serving = Serving()
    serving.comm.taking = True
    serving.start({0: 10})
    first, second = np.arange(10.0), np.full(10, 0.5)
    for begin in (0, 4, 8):
        serving.push(0, 0, first, begin)
    serving.push(1, 0, second, 0)
    serving.serve(lambda: len(serving.comm.answers) == 2)
    assert serving.answers(0) == serving.answers(1) == [(0, [0.5, 1.5, 2.5, 3.5])]
    for begin in (4, 8):
        serving.push(1, 0, second, begin)
    for begin in (0, 4, 8):  # the next round
        serving.push(1, 0, first, begin)
        serving.push(0, 0, first, begin)
    serving.server._stopping.clear()
    serving.serve(lambda: len(serving.comm.answers) == 12)
    found = [value for _, values in serving.answers(1) for value in values]
    assert found == [*(first + 0.5), *(2 * first)]


def test_a_server_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LATE", 0.05)
    serving = Serving()
    serving.comm.taking = True
    serving.start({0: 2, 1: 2, 2: 2})
    serving.push(0, 0, np.ones(2), 0)
    serving.push(1, 1, np.ones(2), 0)
    serving.push(1, 2, np.ones(2), 0)
    text = {"store": 0, "key": "later", "whole": [2], "dtype": dtypes.code("float32")}
    serving.put(1, Head(Command.PULL, 3, 0, 0, STEP), text)
    serving.serve(lambda: len(serving.said) == 1)
    first = "push 1 of key 'k1', push 1 of key 'k2', the first value of key 'later'"
    assert serving.said == [f"waits for worker 0: {first}, and for worker 1: push 1 of key 'k0'"]
    serving.push(1, 0, np.ones(2), 0)
    for key in (1, 2):
        serving.push(0, key, np.ones(2), 0)
    serving.server._stopping.clear()
    serving.serve(lambda: len(serving.said) == 3)
    assert serving.said[1:] == ["serves", "waits for worker 0: the first value of key 'later'"]


def test_answers_of_the_first_layer_overtake_those_of_a_large_value() -> None:
    serving = Serving()
    serving.start({0: 2, 7: 20})
    for source in (0, 1):
        for begin in range(0, 20, 4):
            serving.push(source, 7, np.ones(20), begin, -7)
        serving.push(source, 0, np.ones(2), 0, 0)
    serving.serve(
        lambda: len(serving.comm.answers) == 4
    )  # nobody takes the two slices that each has begun to get
    assert [key for key, _ in serving.answers(0)] == [7, 7]
    serving.comm.take_all()
    serving.server._stopping.clear()
    serving.serve(lambda: len(serving.comm.answers) == 12)
    for worker in (0, 1):
        assert [key for key, _ in serving.answers(worker)] == [7, 7, 0, 7, 7, 7]


@pytest.mark.parametrize(
    ("head", "data", "words"),
    [
        (Head(Command.PUSH, 0, 0, 0, 5), np.ones(5, np.float32),
         r"key 'k0': values travel in slices of 4 elements for worker 0, of 5 for worker 1; "
         r"MXNET_KVSTORE_SLICE_THRESHOLD must be the same"),
        (Head(Command.PULL, 0, 0, 0, 5), None, "in slices of 4 elements for worker 0, of 5 for worker 1"),
        (Head(Command.PUSH, 0, 0, 4, 4), np.ones(4, np.float32),
         r"key 'k0': expected the slice of rank 1 that begins at 0, got that at 4"),
        (Head(Command.PUSH, 0, 0, 0, 4), np.ones(3, np.float32), "key 'k0': expected 16 bytes, got 12"),
        (Head(Command.PUSH, 5, 0, 0, 4), np.ones(4, np.float32), "key number 5, which has no value yet"),
        (Head(Command.PUSH, 0, 0, 0, 4, ROW_SPARSE), np.ones(4, np.float32),
         "worker 1 sent a row_sparse value of key 'k0'; servers keep dense values only"),
        (Head(Command.PUSH_ONLY, 0, 0, 0, 40), np.ones(10, np.float32), "in slices of 4 elements"),
    ],
)  # fmt: skip
def test_servers_refuse_what_they_do_not_expect(head: Head, data: Any, words: str) -> None:
    serving = Serving()
    serving.start({0: 10})
    serving.put(1, head, None, data)
    with pytest.raises(ProtocolError, match=words):
        serving.serve(lambda: False)


def numbered(serving: Serving, source: int, push: int, value: float) -> None:
    """Pushes both slices of a value of 6 elements."""
    for begin, size in ((0, 4), (4, 2)):
        data = np.full(size, value, np.float32)
        serving.put(source, Head(Command.PUSH, 0, 0, begin, STEP, push=push), None, data)


@pytest.mark.parametrize("pushes", [(1, 2), (2, 1)])
def test_a_push_is_not_summed_with_another_one_of_others(pushes: tuple[int, int]) -> None:
    serving = Serving()
    serving.start({0: 6})
    for source, push in enumerate(pushes):
        numbered(serving, source, push, 1.0)
    late, early = pushes.index(2), pushes.index(1)
    words = (
        f"key 'k0': push 2 of worker {late} came, and push 1 has not: it failed there, and what worker {early} pushed "
        "waits for it"
    )
    with pytest.raises(ProtocolError, match=words):
        serving.serve(lambda: False)
    assert len(serving.told) == 1, "all processes are told"


def test_a_push_that_failed_in_all_workers_is_missed_by_none() -> None:
    serving = Serving()
    serving.comm.taking = True
    serving.start({0: 6})
    for push in (2, 3, 5):
        for source in (0, 1):
            numbered(serving, source, push, push + source)
    serving.serve(lambda: len(serving.comm.answers) == 12)
    found = [value for _, values in serving.answers(0) for value in values]
    assert found == [*[5.0] * 6, *[7.0] * 6, *[11.0] * 6]


def test_the_push_that_a_worker_which_has_ended_left_out_is_told_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LATE", 0.05)
    serving, missed = Serving(), []
    serving._joined.membership.left.add(1)
    serving._joined.membership.miss = lambda numbers, what: missed.append((numbers, what))
    serving.comm.taking = True
    serving.start({0: 6})
    for source, push in ((0, 2), (1, 2), (0, 3)):  # the first one failed in both
        numbered(serving, source, push, 1.0)
    serving.serve(lambda: bool(missed))
    assert missed == [({1}, " after 2 pushes of key 'k0', and worker 0 waits: push 3")]


@pytest.mark.parametrize("first", ["before", "after"])
def test_first_values_of_another_shape_are_refused(first: str) -> None:
    serving = Serving()
    declared = {"store": 0, "key": "k0", "shape": [2, 5], "whole": [2, 5], "dtype": dtypes.code("float32")}
    if first == "before":
        serving.start({0: 10})
    serving.put(1, Head(Command.PULL, 0, 0, 0, STEP), declared)
    if first == "after":
        serving.start({0: 10})
    words = (
        r"first values differ: worker 0 has key 'k0' of shape \(10,\) and type float32, worker 1 has key 'k0' of "
        r"shape \(2, 5\) and type float32"
    )
    with pytest.raises(ProtocolError, match=words):
        serving.serve(lambda: False)
    assert len(serving.told) == 1, "all processes are told"


def test_a_row_sparse_first_value_is_refused_by_name() -> None:
    serving = Serving()
    text = {"store": 0, "key": "emb", "shape": [5, 2], "dtype": dtypes.code("float32")}
    rows, values = np.array([1, 4]), np.ones(4, np.float32)
    serving.put(0, Head(Command.INIT, 0, 0, 0, STEP, ROW_SPARSE), text, values, rows)
    with pytest.raises(ProtocolError, match="worker 0 sent a row_sparse value of key 'emb'"):
        serving.serve(lambda: False)
    assert len(serving.told) == 1, "all processes are told"


def test_slices_of_codes_are_added_as_what_they_stand_for() -> None:
    serving, how = Serving(), Compression("2bit", 0.5)
    serving.comm.taking = True
    serving.start({0: 10})
    for source in (0, 1):
        serving.put(source, Head(Command.COMPRESSION), {"store": 0, "type": "2bit", "threshold": 0.5})
    gradients = [np.linspace(-2, 2, 10, dtype=np.float32), np.linspace(1, -1, 10, dtype=np.float32)]
    expected = np.zeros(10, np.float32)
    for source, gradient in enumerate(gradients):
        for begin in (0, 4, 8):
            part, residual = gradient[begin : begin + 4], np.zeros(10, np.float32)[begin : begin + 4]
            codes = np.empty(how.words(part.size), np.uint32)
            how.compress(part, residual, codes)
            how.expand(codes, expected[begin : begin + 4], add=True)
            serving.put(source, Head(Command.PUSH, 0, 0, begin, STEP), None, codes)
    serving.comm.Send = lambda *words: None  # type: ignore[attr-defined]
    serving.serve(lambda: len(serving.comm.answers) == 6)
    assert [value for _, values in serving.answers(0) for value in values] == expected.tolist()
