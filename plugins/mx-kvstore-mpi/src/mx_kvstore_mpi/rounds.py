# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker: which keys are ready on all workers, and their sums.

Gradients become ready in another order on each worker. So the workers agree in rounds: each tells which keys it has
ready, and with what priority; a key that all have ready is summed, larger priorities first. While a round's sums are
under way the next gradients are computed.

Operations on one key become ready in any order, too: a push reads nothing that the first value writes. So each call
takes a ticket, and the requests of a key are handed out in the order of tickets. In a round workers also compare what
their requests are, since an exchange of one kind that meets one of another has no meaning.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_kvstore.compression import Compression
from mx_kvstore_mpi.agreement import Told, differences, digest
from mx_kvstore_mpi.errors import PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.reduction import BUCKET, SMALL, Summation, Values, broadcast
from mx_kvstore_mpi.waiting import Waiter

#: numbers before the keys' in what workers tell each other: whether a step waits, which, the negative of that, -keys
_HEAD = 4
#: numbers of a key, after those of the head: its priority; the mark of its request, and the negative of that
_PER_KEY = 3
#: what a worker says of a key that it has not ready
_ABSENT = -(2**62)
#: bytes of one round, after which what has become ready meanwhile is looked at
_ROUND = 8 * BUCKET
#: seconds between two rounds that found nothing
_PAUSE, _LONGEST = 5e-4, 5e-3
#: seconds between two looks at calls that never began, which wake nobody
_LOOK = 0.2


@dataclass(frozen=True)
class Ticket:
    """A place among the calls of a key. Threads: any.

    If it goes without a request, the call's operation never began, since what it reads has failed. Others must hear of
    that, and what was called later takes its turn.
    """

    index: int
    number: int
    called: str


class _Watch(weakref.ref[Ticket]):
    """Tells when a ticket has gone, natively: Ctrl-C would be lost in a finalizer of Python."""

    place: tuple[int, int, str]

    def __new__(cls, ticket: Ticket, gone: SimpleQueue[Any]) -> _Watch:
        made = super().__new__(cls, ticket, gone.put)
        made.place = ticket.index, ticket.number, ticket.called
        return made


@dataclass
class Request:
    """A value that is to be summed, or to be taken from rank 0.

    Parameters
    ----------
    ticket : Ticket
        Of the call; it has the key.
    told : tuple of str
        What it is, for messages, then key, shape, type and settings. It must be the same on all workers.
    priority : int
        Larger ones go first.
    send : numpy array of one dimension, optional
        None: `receive` gets what rank 0 has there.
    receive : numpy array of one dimension, optional
        None: nothing is exchanged, as the operation never began.
    done : callable
        Called once with None or an error; later calls do nothing.
    compression : Compression, optional
        With the `residual` of the key: codes are exchanged.
    """

    ticket: Ticket
    told: Told
    priority: int
    send: Values | None
    receive: Values | None
    done: Callable[[MXNetError | None], object]
    compression: Compression | None = None
    residual: Values | None = None
    since: float = field(default_factory=time.monotonic)
    #: a number that tells requests apart
    mark: int = field(init=False)

    def __post_init__(self) -> None:
        self.mark = digest(self.told)

    @property
    def called(self) -> str:
        """For messages."""
        return self.told[0]


@dataclass
class _Line:
    """The calls of a key."""

    taken: int = 0
    #: the ticket that is next
    next: int = 0
    #: requests that are ready, by ticket
    ready: dict[int, Request] = field(default_factory=dict)

    @property
    def head(self) -> Request | None:
        """The request that is next, if it is ready."""
        return self.ready.get(self.next)


@dataclass
class Step:
    """Something that all workers do once, in the order in which they ask for it."""

    called: str
    run: Callable[[Any], Any]
    ended: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: MXNetError | None = None
    since: float = field(default_factory=time.monotonic)
    #: what must be the same on all workers
    details: Told = ()

    @property
    def told(self) -> Told:
        """What is compared with the steps of other workers."""
        return (self.called, *self.details)


class Rounds:
    """What waits for other workers, and the rounds in which it is done. Threads: any asks, one runs `run`.

    Parameters
    ----------
    waiter : Waiter
    """

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._changed = threading.Condition()
        self._lines: dict[int, _Line] = {}
        #: the requests that are next, of those keys that have theirs ready
        self._heads: dict[int, Request] = {}
        self._steps: deque[Step] = deque()
        self._under_way: list[Request] = []
        self._keys = 0
        self._width = 64  # keys that a round tells of; grows for all workers in the same round
        self._abandoned: list[Any] = []
        #: of tickets that have no request yet, by key and number, and of those that have gone without one
        self._watched: dict[tuple[int, int], _Watch] = {}
        self._gone: SimpleQueue[_Watch] = SimpleQueue()
        self._stopping = False
        #: since when the thread is inside of MPI, where it cannot be ended; 0 if it is not
        self.inside = 0.0
        waiter.fault.listen(self._fail)

    # ---- from any thread ----

    def new_key(self) -> int:
        """The next key's number. All workers ask in the same order."""
        with self._changed:
            self._keys += 1
            return self._keys - 1

    def ticket(self, index: int, called: str) -> Ticket:
        """The next place among the calls of a key, in the order in which this method is called."""
        with self._changed:
            line = self._lines.setdefault(index, _Line())
            line.taken += 1
            ticket = Ticket(index, line.taken - 1, called)
            self._watched[index, ticket.number] = _Watch(ticket, self._gone)
            return ticket

    def ask(self, request: Request) -> None:
        """Hands over a request whose arrays may be used from now on."""
        with self._changed:
            index, number = request.ticket.index, request.ticket.number
            self._watched.pop((index, number), None)
            error = self._waiter.fault.error
            if error is None:
                self._lines[index].ready[number] = request
                self._advance(index)
        if error is not None:
            request.done(error)

    def _give_up(self) -> None:
        """Takes the turns of calls whose operations never began; with the lock."""
        while not self._gone.empty():
            index, number, called = self._gone.get_nowait().place
            told = (f"{called}, which could not begin, since what it reads has failed",)
            self.ask(Request(Ticket(index, number, called), told, 0, None, None, lambda error: None))

    def _advance(self, index: int) -> None:
        """Finds the request of a key that is next; with the lock."""
        head = self._lines[index].head
        if head is None:
            self._heads.pop(index, None)
        elif self._heads.get(index) is not head:
            head.since = time.monotonic()  # others have not let it wait before
            self._heads[index] = head
            self._changed.notify()

    def do(self, called: str, run: Callable[[Any], Any], details: Told = ()) -> Any:
        """Waits until all workers have asked for the same step, and returns what it gives. Blocks.

        Parameters
        ----------
        called : str
        run : callable
            (communicator) -> result.
        details : tuple of str
            Must be the same on all workers, too.
        """
        step = Step(called, run, details=details)
        with self._changed:
            self._waiter.fault.check()
            self._steps.append(step)
            self._changed.notify()
        while not step.ended.wait(0.2):  # Python looks for Ctrl-C in between
            pass
        if step.error is not None:
            raise step.error
        return step.result

    def stop(self) -> None:
        """Ends `run` once nothing waits any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _fail(self, error: MXNetError) -> None:
        """Ends everything that waits, on the thread that found the failure."""
        with self._changed:
            requests = [
                each for line in self._lines.values() for each in line.ready.values()
            ] + self._under_way
            steps = list(self._steps)
            self._abandoned.append(self._under_way)  # a message may still fill their memory
            self._heads, self._under_way = {}, []
            for line in self._lines.values():
                line.ready = {}
            self._steps.clear()
            self._changed.notify_all()
        for request in requests:
            request.done(type(error)(*error.args))
        for step in steps:
            step.error = type(error)(*error.args)
            step.ended.set()

    # ---- the communication thread ----

    def run(self, comm: Any) -> None:
        """Works until `stop`, or the job has failed; raises what is wrong."""
        summation = Summation(comm, self._wait)
        pause = _PAUSE
        while True:
            with self._changed:
                while not self._has_work():
                    self._changed.wait(_LOOK)
                if self._waiter.fault.error is not None:
                    return
                if self._stopping and not self._heads and not self._steps:
                    return
            if self._round(comm, summation):
                pause = _PAUSE
            else:  # others are not ready, but take part: nobody may spin meanwhile
                with self._changed:
                    self._changed.wait(pause)
                pause = min(2 * pause, _LONGEST)

    def _has_work(self) -> bool:
        self._give_up()
        return bool(self._heads or self._steps or self._stopping or self._waiter.fault.error is not None)

    def _round(self, comm: Any, summation: Summation) -> bool:
        """Asks the others what they have ready, and does what all have; whether there was something."""
        with self._changed:
            step = self._steps[0] if self._steps else None
            mark = 0 if step is None else digest(step.told)
            width, heads = self._width, dict(self._heads)
            mine = np.full(_HEAD + _PER_KEY * width, _ABSENT, np.int64)
            mine[:_HEAD] = step is not None, mark, -mark, -self._keys
        keys = mine[_HEAD:].reshape(_PER_KEY, width)
        for index, request in heads.items():
            if index < width:
                keys[:, index] = request.priority, request.mark, -request.mark
        least = self._least(comm, mine)
        while self._width < -int(least[3]):  # of the worker that has most; all see the same number
            self._width *= 2
        done = self._step(comm, step, least) if least[0] and step is not None else False
        priorities, marks, negatives = least[_HEAD:].reshape(_PER_KEY, width)
        found = np.flatnonzero(priorities > _ABSENT)
        for index in found[marks[found] != -negatives[found]]:
            self._disagree(comm, heads[int(index)].told)
        common = self._common({int(index): int(priorities[index]) for index in found})
        if not common:
            if not done and not found.size:
                self._check_deadline()
            return done or bool(found.size)
        self._exchange(comm, summation, common)
        return True

    def _least(self, comm: Any, mine: Values) -> Values:
        """The minimum over workers of each number."""
        from mpi4py import MPI

        least = np.empty_like(mine)
        self._wait(comm.Iallreduce(mine, least, op=MPI.MIN))
        return least

    def _wait(self, request: Any) -> None:
        self._waiter.until(request.Test, self._oldest)

    def _oldest(self) -> str:
        with self._changed:
            waiting: list[Request | Step] = [*self._heads.values(), *self._steps]
        return min(waiting, key=lambda each: each.since).called if waiting else "the next push"

    def _check_deadline(self) -> None:
        with self._changed:
            waiting: list[Request | Step] = [*self._heads.values(), *self._steps]
        if not waiting:  # the job has failed meanwhile
            return
        oldest = min(waiting, key=lambda each: each.since)
        if time.monotonic() - oldest.since > self._waiter.timeout:
            raise PeerTimeoutError(
                f"[KVStore] waited {self._waiter.timeout:g} s: {oldest.called}, while other workers wait for something "
                "else; all must push the same keys and call the same methods"
            )

    def _step(self, comm: Any, step: Step, head: Values) -> bool:
        """Runs a step that all workers ask for."""
        if head[1] != -head[2]:
            self._disagree(comm, step.told)
        self.inside = time.monotonic()
        step.result = step.run(comm)
        self.inside = 0.0
        with self._changed:
            if self._steps and self._steps[0] is step:
                self._steps.popleft()
        step.ended.set()
        return True

    def _disagree(self, comm: Any, told: Told) -> None:
        """Ends the job, as workers do different things at the same place; all of them come here in the same round."""
        from mpi4py import MPI

        data = np.frombuffer(json.dumps(told).encode(), np.uint8)
        most = np.empty(1, np.int64)
        self._wait(comm.Iallreduce(np.array([data.size], np.int64), most, op=MPI.MAX))
        mine = np.full(int(most[0]), ord(" "), np.uint8)
        mine[: data.size] = data
        gathered = np.empty((comm.Get_size(), mine.size), np.uint8)
        self._wait(comm.Iallgather(mine, gathered))
        tellings = [tuple(json.loads(each.tobytes())) for each in gathered]
        raise ProtocolError(
            f"[KVStore] workers do different things at the same place: {differences(tellings)}; all workers must call "
            "the same methods in the same order, with the same settings"
        )

    def _common(self, priorities: dict[int, int]) -> list[Request]:
        """The requests of keys that all workers have ready, in the order in which they go."""
        with self._changed:
            if self._waiter.fault.error is not None:
                return []
            common, size = [], 0
            for index in sorted(priorities, key=lambda each: (-priorities[each], each)):
                if size > _ROUND:
                    break
                line = self._lines[index]
                request = line.ready.pop(line.next)
                line.next += 1
                self._advance(index)
                if request.receive is not None:  # otherwise it failed on all workers
                    common.append(request)
                    size += request.receive.nbytes
            self._under_way = common
            return common

    def _exchange(self, comm: Any, summation: Summation, common: list[Request]) -> None:
        small: dict[np.dtype[Any], list[Request]] = {}
        self.inside = time.monotonic()
        for request in common:
            assert request.receive is not None
            if request.send is None:
                self._wait(broadcast(comm, request.receive))
                request.done(None)
            elif request.compression is not None and request.residual is not None:
                summation.compressed(request.send, request.receive, request.compression, request.residual)
                request.done(None)
            elif request.receive.nbytes < SMALL:
                waiting = small.setdefault(request.receive.dtype, [])
                waiting.append(request)
                if sum(_bytes(each) for each in waiting) >= BUCKET:
                    self._together(summation, small.pop(request.receive.dtype))
            else:
                summation.alone(request.send, request.receive)
                request.done(None)
        for waiting in small.values():
            self._together(summation, waiting)
        self.inside = 0.0
        with self._changed:
            self._under_way = []

    def _together(self, summation: Summation, requests: list[Request]) -> None:
        pairs = [(each.send, each.receive) for each in requests]
        summation.together(
            [send for send, _ in pairs if send is not None], [to for _, to in pairs if to is not None]
        )
        for request in requests:
            request.done(None)


def _bytes(request: Request) -> int:
    return 0 if request.receive is None else request.receive.nbytes
