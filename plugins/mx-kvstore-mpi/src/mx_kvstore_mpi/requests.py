# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker whose job has servers: sends pushes, receives values."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore_mpi import messages
from mx_kvstore_mpi.agreement import Told, compare, listed, of_keys
from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.messages import HEAD, VALUE, VALUES, Command, Head
from mx_kvstore_mpi.outbox import Outbox, Sending, bytes_at_once
from mx_kvstore_mpi.parts import Part, slice_count, slices
from mx_kvstore_mpi.steps import Step, Steps
from mx_kvstore_mpi.waiting import Waiter


@dataclass(eq=False)
class Request:
    """Messages to the servers of a key and the values that they answer.

    Parameters
    ----------
    number : int
        Of the key.
    called : str
        For messages.
    command : Command
    parts : list of Part
        Where the value's elements are.
    send : numpy array of one dimension, optional
        What to send.
    receive : numpy array of one dimension, optional
        Where the answer goes.
    text : callable, optional
        (part) -> JSON value to send.
    done : callable
        Called once with None or an error.
    compression : Compression, optional
        With the `residual` of the key: codes are sent.
    push : int
        As in the head of a message.
    """

    number: int
    called: str
    command: Command
    parts: list[Part]
    send: Values | None
    receive: Values | None
    done: Callable[[MXNetError | None], object]
    text: Callable[[Part], Any] | None = None
    compression: Compression | None = None
    residual: Values | None = None
    push: int = 0
    priority: int = 0
    unsent: int = 0
    unreceived: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def complete(self) -> bool:
        """Whether all is sent and received."""
        return not self.unsent and not self.unreceived


def together(
    count: int, done: Callable[[MXNetError | None], object]
) -> Callable[[MXNetError | None], object]:
    """The `done` of so many requests of one operation, which calls that of the operation once all have ended.

    Threads: any.
    """
    left, errors = deque(range(count)), deque[MXNetError]()

    def ended(error: MXNetError | None) -> None:
        if error is not None:
            errors.append(error)
        if left.pop() == 0:  # the last one; of several threads each takes another number
            done(errors[0] if errors else None)

    return ended


class Requests:
    """What waits for servers. Threads: any asks, one runs `run`.

    Those that wait for an answer keep no others from being sent: the answer may depend on a push of another worker,
    which waits for one of these.

    Parameters
    ----------
    waiter : Waiter
    workers : int
        The servers' numbers in MPI follow those of the workers.
    servers : int
    step : int
        Elements of the slices in which values travel.
    """

    def __init__(self, waiter: Waiter, workers: int, servers: int, step: int) -> None:
        self._waiter = waiter
        self._workers = workers
        self.step = step
        self._changed = threading.Condition()
        self._queue: list[tuple[int, Request]] = []
        self._servers = servers
        self._boxes: list[Outbox] = []
        self._steps = Steps(waiter, self._wake)
        self._under_way: dict[Request, None] = {}
        self._ended: list[Request] = []
        #: by server and key, where small values go that come from there: in the order in which they are expected
        self._rooms: dict[tuple[int, int], deque[tuple[Values, Request]]] = {}
        #: the same of large values; MPI is asked for the first of each only, whose requests are these
        self._lines: dict[tuple[int, int], deque[tuple[Any, Request]]] = {}
        self._arriving: list[Any] = []
        self._expecting: list[tuple[int, int]] = []
        self._abandoned: list[Any] = []
        self._keys: list[str] = []
        self._stores = 0
        self._comm: Any = None
        self._stopping = False
        self.inside = 0.0
        waiter.fault.listen(self._fail)

    # ---- from any thread ----

    def new_key(self, key: Any) -> int:
        """The number of the next key, which is called so. All workers ask in the same order."""
        with self._changed:
            self._keys.append(repr(key))
            return len(self._keys) - 1

    @property
    def keys(self) -> int:
        """How many keys have a number."""
        return len(self._keys)

    def new_store(self) -> int:
        """The next store's number. All workers ask in the same order."""
        with self._changed:
            self._stores += 1
            return self._stores - 1

    def ask(self, requests: Sequence[Request], priority: int) -> None:
        """Hands over requests whose arrays may be used from now on."""
        with self._changed:
            error = self._waiter.fault.error
            if error is None:
                self._queue += [(priority, request) for request in requests]
                self._changed.notify()
        if error is not None:
            for request in requests:
                request.done(error)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def do(self, called: str, run: Callable[[Any], Any]) -> Any:
        """Runs a step on the communication thread, after those before it, and returns what it gives. Blocks.

        `run` gets the communicator of all processes, and that of workers.
        """
        return self._steps.do(called, run)

    def meet(self, called: str, details: Told = (), new: int | None = None) -> None:
        """Waits until all workers have come to the same step with the same details and the same keys. Blocks.

        Parameters
        ----------
        called : str
        details : tuple of str
        new : int, optional
            From which key on those of this worker are compared, which waits are told to be for.

        Raises
        ------
        ProtocolError  another worker has come to another step, with other details or other keys
        """
        told = called, *details, of_keys(len(self._keys))
        what = called if new is None else f"{called} of {listed(self._keys[new:])}"
        self.do(
            called,
            lambda comms: compare(comms[1], lambda each: self.wait(each.Test, what), told, self._keys),
        )

    def stop(self) -> None:
        """Ends `run` once nothing waits any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _fail(self, error: MXNetError) -> None:
        with self._changed:
            requests = [*(request for _, request in self._queue), *self._under_way]
            self._abandoned.append(self._under_way)  # a message may still fill their memory
            self._queue, self._under_way = [], {}
            self._changed.notify_all()
        for request in requests:
            request.done(type(error)(*error.args))
        self._steps.fail(error)

    # ---- the communication thread ----

    def run(self, comm: Any) -> None:
        """Works until `stop`, or the job has failed; raises what is wrong."""
        workers, self._comm = comm.Split(0, comm.Get_rank()), comm
        limit = bytes_at_once(self.step)
        self._boxes = [Outbox(comm, self._workers + server, HEAD, limit) for server in range(self._servers)]
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._waiter.fault.error is not None:
                    return
                step = self._steps.first
                if self._stopping and not (self._queue or step or self._under_way):
                    return
            if step is not None:
                self._step(step, (comm, workers))
            self._begin()
            if self._under_way:
                self._waiter.until(self._progress, self._oldest, needs=lambda: (), flowing=self._sends)

    def _has_work(self) -> bool:
        waiting = self._queue or self._steps.first or self._under_way
        return bool(waiting or self._stopping or self._waiter.fault.error is not None)

    def _sends(self) -> bool:
        return not all(box.empty for box in self._boxes)

    def _oldest(self) -> str:
        with self._changed:
            waiting = list(self._under_way)
        return min(waiting, key=lambda each: each.since).called if waiting else "the next push"

    def _step(self, step: Step, comms: Any) -> None:
        try:
            result = step.run(comms)
        except (PeerLostError, PeerTimeoutError, ProtocolError):
            raise
        except MXNetError as error:  # the servers refuse it; the job goes on
            self._steps.finish(step, error=error)
        else:
            self._steps.finish(step, result)

    def _begin(self) -> None:
        """Gives what waits to the outboxes of its servers."""
        comm = self._comm
        with self._changed:
            queue, self._queue = self._queue, []
            self._under_way.update((request, None) for _, request in queue)
        small: dict[tuple[int, int], list[Request]] = {}
        for priority, request in queue:
            request.priority = priority
            if self._is_small(request):
                request.unsent = 1
                small.setdefault((request.parts[0].server, priority), []).append(request)
                continue
            self._put_small(small)  # those that came before go before
            pushes = request.command in (Command.PUSH, Command.PUSH_ONLY)
            request.unsent = sum(slice_count(part.size, self.step) if pushes else 1 for part in request.parts)
            for part in request.parts:
                sendings = self._pushes(comm, request, part) if pushes else self._asks(comm, request, part)
                self._boxes[part.server].put(priority, sendings)

        self._put_small(small)

    def _is_small(self, request: Request) -> bool:
        """Whether it pushes a small value, as one slice."""
        if request.command is not Command.PUSH or request.compression is not None or len(request.parts) > 1:
            return False
        values = request.send
        assert values is not None
        return values.size <= self.step and messages.small(values.size, self.step, values.itemsize)

    def _put_small(self, small: dict[tuple[int, int], list[Request]]) -> None:
        """Gives the outboxes small pushes by server and priority, as many at once as a packet has room for."""
        for (server, priority), requests in small.items():
            most = messages.at_once(_bytes(request) for request in requests)
            chunks = [requests[at : at + most] for at in range(0, len(requests), most)]
            self._boxes[server].put(priority, [self._small(server, chunk) for chunk in chunks])
        small.clear()

    def _small(self, server: int, requests: list[Request]) -> Sending:
        def encode() -> messages.Encoded:
            record: list[Any] = []
            for request in requests:
                assert request.receive is not None
                assert request.send is not None
                line = self._rooms.setdefault((server, request.number), deque())
                line.append((request.receive.view(np.uint8), request))
                request.unreceived = 1
                record += messages.encoded_push(
                    request.number, request.priority, self.step, request.push, request.send
                )
            return messages.Encoded(record, [])

        def ended() -> None:
            for request in requests:
                self._sent(request)

        size = sum(_bytes(request) + messages.OVERHEAD for request in requests)
        return Sending(size, encode, ended)

    def _head(self, request: Request, begin: int = 0) -> Head:
        return Head(request.command, request.number, request.priority, begin, self.step, push=request.push)

    def _pushes(self, comm: Any, request: Request, part: Part) -> Iterator[Sending]:
        """The slices of what is pushed of a part."""
        how, sent = request.compression, partial(self._sent, request)
        for elements in slices(part.size, self.step):
            values = _of(request.send, part, elements)
            size = values.nbytes if how is None else 4 * how.words(values.size)
            yield Sending(size, partial(self._push, comm, request, part, elements, values), sent)

    def _push(
        self, comm: Any, request: Request, part: Part, elements: slice, values: Values
    ) -> messages.Encoded:
        if request.receive is not None:
            self._expect(comm, request, part, elements)
        if request.compression is not None:
            values = _codes(request.compression, values, _of(request.residual, part, elements))
        return messages.encoded(self._head(request, elements.start), None, values)

    def _asks(self, comm: Any, request: Request, part: Part) -> Iterator[Sending]:
        """What gives a server a first value, or asks it for one."""
        given = 0 if request.send is None else request.send[part.begin : part.end].nbytes
        yield Sending(given, partial(self._ask, comm, request, part), partial(self._sent, request))

    def _ask(self, comm: Any, request: Request, part: Part) -> messages.Encoded:
        if request.receive is not None:
            for elements in slices(part.size, self.step):
                self._expect(comm, request, part, elements)
        text = None if request.text is None else request.text(part)
        values = None if request.send is None else request.send[part.begin : part.end]
        return messages.encoded(self._head(request), text, values)

    def _expect(self, comm: Any, request: Request, part: Part, elements: slice) -> None:
        """Has room for a slice that the server answers; it sends those of a key in their order."""
        values = _of(request.receive, part, elements)
        room, place = values.view(np.uint8), (part.server, request.number)
        request.unreceived += 1
        if messages.small(part.size, self.step, values.itemsize):
            self._rooms.setdefault(place, deque()).append((room, request))
            return
        arrival = comm.Irecv(room, self._workers + part.server, VALUE + request.number)
        if place not in self._lines:
            self._lines[place] = deque()
            self._arriving.append(arrival)
            self._expecting.append(place)
        self._lines[place].append((arrival, request))

    def _sent(self, request: Request) -> None:
        request.unsent -= 1
        if request.complete:
            self._ended.append(request)

    def _received(self, request: Request) -> None:
        request.unreceived -= 1
        if request.complete:
            self._ended.append(request)

    def _progress(self) -> bool:
        """Ends what is complete; true if something is, or if there is something new to start."""
        for box in self._boxes:
            box.go()
        changed = self._take_values()
        while arrived := sorted(messages.ended(self._arriving), reverse=True):  # MPI may give one each time
            for at in arrived:
                self._arrived(at)
        ended, self._ended = self._ended, []
        with self._changed:  # the job may have failed, and `_fail` have ended some
            mine = [request for request in ended if request in self._under_way]
            for request in mine:
                del self._under_way[request]
        for request in mine:
            request.done(None)
        if mine or changed:
            return True
        with self._changed:
            return bool(self._steps.first or self._queue)

    def _take_values(self) -> bool:
        """Puts the small values that are there in their places; true if there are some."""
        found = False
        while (packet := messages.there(self._comm, VALUES)) is not None:
            found, source = True, packet[0]
            for number, data in messages.values(self._comm, *packet):
                place = source - self._workers, number
                line = self._rooms[place]
                room, request = line.popleft()
                room[:] = data
                if not line:
                    del self._rooms[place]
                self._received(request)
        return found

    def _arrived(self, at: int) -> None:
        """The first of a line is there, and perhaps more; MPI is asked for the next one from now on."""
        place = self._expecting[at]
        line = self._lines[place]
        self._received(line.popleft()[1])
        while line and line[0][0].Test():
            self._received(line.popleft()[1])
        if line:
            self._arriving[at] = line[0][0]
        else:
            del self._lines[place], self._expecting[at], self._arriving[at]

    def wait(self, ready: Callable[[], bool], what: str, needs: Collection[int] | None = None) -> None:
        """For steps: waits, while requests go on and begin, on which other workers may wait; as `Waiter.until`."""

        def both() -> bool:
            self._begin()
            self._progress()
            return ready()

        self._waiter.until(both, lambda: what, needs=lambda: needs)


def _bytes(request: Request) -> int:
    """Of what a request sends."""
    return 0 if request.send is None else int(request.send.nbytes)


def _of(values: Values | None, part: Part, elements: slice) -> Values:
    """Some elements of a part."""
    assert values is not None
    return values[part.begin + elements.start : part.begin + elements.stop]


def _codes(compression: Compression, gradient: Values, residual: Values) -> Values:
    """What is sent of some elements of a gradient."""
    codes = np.empty(compression.words(gradient.size), np.uint32)
    compression.compress(gradient, residual, codes)
    return codes
