# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker: sends pushes to servers, receives values, and asks again what got no answer."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore.arrays import Values, sums
from mx_kvstore.compression import Compression
from mx_kvstore_ray.errors import KINDS, LASTING, PeerLostError, PeerTimeoutError, in_a_line
from mx_kvstore_ray.faults import Fault
from mx_kvstore_ray.memory import Memory, Others, Region
from mx_kvstore_ray.messages import aligned, packed
from mx_kvstore_ray.parts import Part
from mx_kvstore_ray.settings import GIVEN_UP

_log = logging.getLogger("mx.kvstore")

#: bytes of pushes that are one message, and from which one that travels in it travels alone
_TOGETHER, _ALONE = 4 << 20, 1 << 18
_BYTES = dtypes.code("uint8")
#: seconds before a request is sent again, after which a wait is told in the log, and that an answer may be late
_PAUSE, _WARN, _LATE = 0.2, 10.0, 30.0
#: seconds that servers have to say who waits, before a wait is told without it
_ASKED = 2.0
#: seconds that servers have to hear of a failure
_HEARD = 2.0

#: (server, command, JSON values, bytes) -> what becomes the answer; with `result()`, and `add_done_callback(function)`
Send = Callable[[int, str, dict[str, Any], Any], Any]


@dataclass
class Request:
    """What a store asks the servers of a key.

    Parameters
    ----------
    command : str
    called : str
        For messages.
    parts : list of Part
        Where the value's elements are.
    told : callable
        (part) -> JSON values.
    done : callable
        Called once with None or an error.
    send : numpy array of one dimension, optional
        What to send.
    receive : sequence of such arrays
        Where the answer goes.
    compression, residual
        With them, codes of `send` are sent.
    """

    command: str
    called: str
    parts: list[Part]
    told: Callable[[Part], dict[str, Any]]
    done: Callable[[MXNetError | None], object]
    send: Values | None = None
    receive: Sequence[Values] = ()
    compression: Compression | None = None
    residual: Values | None = None
    left: int = 0


@dataclass
class _Piece:
    """The part of a request that goes to a server, with what is sent and where the answer goes, as bytes.

    With a region, it is left there, and the server is told where.
    """

    request: Request
    told: dict[str, Any]
    data: Any
    targets: list[Any]
    region: Region | None = None


@dataclass
class _Call:
    """A message to a server. `pieces` are of requests; a step has none, and gets the answer."""

    server: int
    command: str
    told: dict[str, Any]
    data: Any
    called: str
    pieces: list[_Piece] = field(default_factory=list)
    size: int = 0
    step: _Step | None = None
    place: int = 0
    begun: float = field(default_factory=time.monotonic)
    failing: float | None = None
    warned: bool = False
    question: _Question | None = None


@dataclass
class _Question:
    """What the servers are asked when an answer does not come: who waits there, and who is missing.

    Parameters
    ----------
    call : _Call
        That waits longest.
    left : int
        Servers that have not answered.
    """

    call: _Call
    left: int
    begun: float = field(default_factory=time.monotonic)
    waits: dict[int, str] = field(default_factory=dict)

    def hear(self, told: dict[str, Any]) -> None:
        """The answer of a server."""
        self.left -= 1
        for rank, what in told["waits"]:
            self.waits.setdefault(rank, what)


class _Step:
    """A command to all servers that a thread waits for."""

    def __init__(self, servers: int) -> None:
        self.answers: list[Any] = [None] * servers
        self.error: MXNetError | None = None
        self.left = servers
        self.over = threading.Event()


class Requests:
    """What waits for servers. Threads: any asks, one of its own sends.

    Parameters
    ----------
    send : callable
    retried : tuple of exception types
        After which a request is sent again: the server comes back.
    servers : int
    fault : Fault
    timeout : float
        Seconds that a server lets an answer wait for other workers.
    memory : bool
        Whether large values are left in memory for servers of the same machine, which are asked whether they see it.
    """

    def __init__(
        self,
        send: Send,
        retried: tuple[type[BaseException], ...],
        servers: int,
        fault: Fault,
        timeout: float,
        memory: bool = True,
    ) -> None:
        self._send, self._retried, self._servers, self._fault = send, retried, servers, fault
        self._timeout = timeout
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._queue: list[tuple[int, int, Request]] = []
        self._steps: deque[_Call] = deque()
        self._answered: deque[tuple[_Call, Any]] = deque()
        self._again: list[tuple[float, int, _Call]] = []
        self._under_way: dict[int, _Call] = {}
        #: by number in memory, what has not been answered
        self._open: dict[int, Request] = {}
        self._open_steps: dict[int, _Step] = {}
        self._stopping = False
        #: of the thread: whether servers are asked, and by server whether it sees this worker's memory, and its own;
        #: by store, key and server, the places of pushes
        self._shares = memory
        self._seen = [memory] * servers
        self._others = [Others() for _ in range(servers)]
        self._memory = Memory()
        self._regions: dict[tuple[int, Any, int], Region | None] = {}
        self._question: _Question | None = None
        fault.listen(lambda error: self._wake())
        self._thread = threading.Thread(target=self._run, name="mx kvstore: communication", daemon=True)
        self._thread.start()

    # ---- from any thread ----

    def ask(self, request: Request, priority: int) -> None:
        """Hands over a request whose arrays may be used from now on."""
        with self._changed:
            if not self._stopping:
                self._open[id(request)] = request
                heapq.heappush(self._queue, (-priority, next(self._order), request))
                self._changed.notify()
                return
        request.done(self._fault.error or MXNetError("[KVStore] the store is closed"))

    def command(
        self,
        command: str,
        told: dict[str, Any],
        datas: Sequence[Any] | None = None,
        servers: Sequence[int] | None = None,
    ) -> list[tuple[dict[str, Any], Any]]:
        """Sends a command to servers, by default all; their answers. Blocks; Ctrl-C interrupts it.

        Raises
        ------
        PeerLostError, PeerTimeoutError  the job has failed
        MXNetError                       a server refuses it
        """
        self._fault.check()
        chosen = list(range(self._servers) if servers is None else servers)
        step = _Step(len(chosen))
        with self._changed:
            if self._stopping:
                raise self._fault.error or MXNetError("[KVStore] the store is closed")
            self._open_steps[id(step)] = step
            for place, server in enumerate(chosen):
                data = None if datas is None else datas[place]
                self._steps.append(_Call(server, command, told, data, command, step=step, place=place))
            self._changed.notify()
        while not step.over.wait(0.1):
            pass
        if step.error is not None:
            raise step.error
        return step.answers

    def stop(self, seconds: float) -> None:
        """Ends the thread; what waits fails."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(seconds)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    # ---- the thread ----

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except MXNetError as error:
            self._fault.set(error)
        except BaseException as error:  # whatever it is, nobody may wait for this thread any more
            self._fault.set(MXNetError(f"[KVStore] the communication of this worker broke: {error!r}"))
        with self._changed:
            self._stopping = True
        self._give_up()
        self._tell_failure()

    def _tell_failure(self) -> None:
        """Tells the servers of a failure, so that other workers get the same error, wherever they wait. Blocks."""
        error = self._fault.error
        if error is None:
            return
        told = {"kind": type(error).__name__, "why": str(error)}
        answers = []
        for server in range(self._servers):
            with contextlib.suppress(Exception):  # one that is lost cannot hear it
                answers.append(self._send(server, "fail", told, None))
        limit = time.monotonic() + _HEARD
        for answer in answers:
            with contextlib.suppress(Exception):
                answer.result(max(0.0, limit - time.monotonic()))

    def _turn(self) -> bool:
        """Does what is to be done, or waits for it; false at the end."""
        with self._changed:
            self._changed.wait_for(self._has_work, self._until_next())
            if self._stopping or self._fault.error is not None:
                return False
            answered = list(self._answered)
            self._answered.clear()
            calls = list(self._steps)
            self._steps.clear()
            requests = [heapq.heappop(self._queue)[2] for _ in range(len(self._queue))]
        for call, future in answered:
            self._take(call, future)
        now = time.monotonic()
        while self._again and self._again[0][0] <= now:
            calls.append(heapq.heappop(self._again)[2])
        for call in [*calls, *self._calls(requests)]:
            self._begin(call)
        self._look(now)
        return True

    def _has_work(self) -> bool:
        waiting = self._answered or self._steps or self._queue
        return bool(waiting or self._stopping or self._fault.error is not None)

    def _until_next(self) -> float:
        return max(0.0, self._again[0][0] - time.monotonic()) if self._again else 1.0

    def _calls(self, requests: list[Request]) -> list[_Call]:
        """Messages for requests, in their order. Pushes to a server travel together, but large ones only in memory."""
        found: list[_Call] = []
        open_calls: dict[tuple[int, str], _Call] = {}
        for request in requests:
            request.left = len(request.parts)
            for part in request.parts:
                piece = self._piece(request, part)
                if not request.command.startswith("push"):
                    found.append(
                        _Call(part.server, request.command, piece.told, piece.data, request.called, [piece])
                    )
                    continue
                place, size = (part.server, request.command), aligned(piece.data.nbytes)
                alone = piece.region is None and size > _ALONE
                call = open_calls.get(place)
                if alone or call is None or call.size + size > _TOGETHER:
                    call = _Call(part.server, request.command, {}, None, request.called)
                    found.append(call)
                    if not alone:
                        open_calls[place] = call
                call.pieces.append(piece)
                call.size += size
        return found

    def _piece(self, request: Request, part: Part) -> _Piece:
        piece = _piece(request, part)
        pushes = request.command.startswith("push") and request.compression is None
        if pushes and self._seen[part.server]:
            place = piece.told["store"], piece.told["key"], part.server
            if place not in self._regions:
                self._regions[place] = self._memory.take(piece.data.nbytes)
            piece.region = self._regions[place]
        return piece

    def _begin(self, call: _Call) -> None:
        if call.pieces and not call.told:
            _pack(call)
        self._under_way[id(call)] = call
        try:
            future = self._send(call.server, call.command, call.told, call.data)
        except self._retried as error:
            self._retry(call, error)
            return
        future.add_done_callback(lambda answer: self._hear(call, answer))

    def _hear(self, call: _Call, future: Any) -> None:
        with self._changed:
            self._answered.append((call, future))
            self._changed.notify()

    def _take(self, call: _Call, future: Any) -> None:
        try:
            error, told, data = future.result()
        except self._retried as reason:
            self._retry(call, reason)
            return
        self._under_way.pop(id(call), None)
        if error is not None:
            found = KINDS[error[0]](error[1])
            if call.step is None or isinstance(found, LASTING):
                raise found
            self._finish_step(call, found, None)
        elif call.step is not None:
            self._finish_step(call, None, (told, data))
        elif call.question is not None:
            call.question.hear(told)
        elif told.get("unseen") or not _fill(call, told, data, self._others[call.server]):
            self._send_all(call)
        else:
            for piece in call.pieces:
                piece.request.left -= 1
                if not piece.request.left:
                    with self._changed:
                        self._open.pop(id(piece.request), None)
                    piece.request.done(None)

    def _send_all(self, call: _Call) -> None:
        """Sends again what was left in memory: the server is on another machine, or has ended since."""
        self._seen[call.server] = False
        for piece in call.pieces:
            piece.region = None
        call.told = {}
        self._begin(call)

    def _finish_step(self, call: _Call, error: MXNetError | None, answer: Any) -> None:
        step = call.step
        assert step is not None
        step.error = step.error or error
        step.answers[call.place] = answer
        step.left -= 1
        if not step.left:
            with self._changed:
                self._open_steps.pop(id(step), None)
            step.over.set()

    def _retry(self, call: _Call, reason: BaseException) -> None:
        """Asks again in a moment: the server comes back, and counts nothing twice."""
        now = time.monotonic()
        if call.failing is None:
            call.failing = now
            self._others[call.server] = Others()  # it comes back with another memory
            self._seen[call.server] = self._shares
            _log.warning(
                "server %d does not answer (%s); it is asked again: %s",
                call.server,
                in_a_line(reason),
                call.called,
            )
        if now - call.failing > min(GIVEN_UP, self._timeout):
            raise PeerLostError(
                f"[KVStore] server {call.server} is lost, and did not come back within {now - call.failing:.0f} s: "
                f"{in_a_line(reason)}"
            )
        heapq.heappush(self._again, (now + _PAUSE, next(self._order), call))

    def _look(self, now: float) -> None:
        """Tells of long waits, and ends those that no server ends."""
        late = [
            call
            for call in self._under_way.values()
            if now - call.begun > _WARN and not call.warned and call.question is None
        ]
        if late and self._question is None:
            self._ask_who_waits(late)
        question = self._question
        if question is not None and (not question.left or now - question.begun > _ASKED):
            self._question, call = None, question.call
            who = "; ".join(f"worker {rank} waits: {what}" for rank, what in sorted(question.waits.items()))
            _log.warning(
                "waits for %.0f s: %s, for server %d (%s)",
                now - call.begun, call.called, call.server, who or "no server says who waits",
            )  # fmt: skip
        for call in self._under_way.values():
            waited = now - call.begun
            if waited > self._timeout + _LATE:
                raise PeerTimeoutError(
                    f"[KVStore] server {call.server} did not answer within {waited:.0f} s: {call.called}; "
                    "MX_KVSTORE_TIMEOUT is the limit"
                )

    def _ask_who_waits(self, late: list[_Call]) -> None:
        for call in late:
            call.warned = True
        oldest = min(late, key=lambda call: call.begun)
        question = self._question = _Question(oldest, self._servers)
        for server in range(self._servers):
            self._begin(_Call(server, "waits", {}, None, "who waits", question=question))

    def _give_up(self) -> None:
        """At the end of the thread: what waits fails."""
        error = self._fault.error or MXNetError("[KVStore] the store is closed")
        with self._changed:
            requests, steps = list(self._open.values()), list(self._open_steps.values())
            self._open.clear()
            self._open_steps.clear()
        for request in requests:
            request.done(type(error)(*error.args))
        for step in steps:
            step.error = error
            step.over.set()


def _piece(request: Request, part: Part) -> _Piece:
    told = request.told(part)
    data = None
    if request.compression is not None:
        assert request.send is not None and request.residual is not None
        gradient, residual = request.send[part.elements], request.residual[part.elements]
        codes = np.empty(request.compression.words(gradient.size), np.uint32)
        request.compression.compress(gradient, residual, codes)
        data = codes.view(np.uint8)
    elif request.send is not None:
        data = request.send[part.elements].view(np.uint8)
    targets = [each[part.elements].view(np.uint8) for each in request.receive]
    return _Piece(request, told, data, targets)


def _pack(call: _Call) -> None:
    """Makes one message of pushes, without those left in memory; one that is alone is sent from where it is."""
    left = [(piece.data, piece.region) for piece in call.pieces if piece.region is not None]
    _copy([data for data, _ in left], [[region.data] for _, region in left])
    sent = []
    call.told = {"pushes": []}
    for piece in call.pieces:
        told = {**piece.told, "bytes": piece.data.nbytes}
        if piece.region is None:
            sent.append(piece.data)
        else:
            told["memory"] = piece.region.where
        call.told["pushes"].append(told)
    call.data = packed(sent)


def _fill(call: _Call, told: dict[str, Any], data: Any, others: Others) -> bool:
    """Copies an answer to where its parts belong; false if some of it is in memory that is not there."""
    found = []
    at = 0
    if data is None:
        data = np.empty(0, np.uint8)  # of values without elements
    filled = [piece for piece in call.pieces if piece.targets]
    places = told.get("memory") or [None] * len(filled)
    for piece, where in zip(filled, places, strict=True):
        size = piece.targets[0].nbytes
        if where is None:
            found.append(data[at : at + size])
            at += aligned(size)
            continue
        there = others.at(where, size)
        if there is None:
            return False
        found.append(there)
    _copy(found, [piece.targets for piece in filled])
    return True


def _copy(sources: Sequence[Any], targets: Sequence[Sequence[Any]]) -> None:
    """Copies bytes to all targets at their place."""
    sums([_BYTES] * len(sources), [[source] for source in sources], targets)
