# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker whose job has servers: sends pushes, receives values."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore_mpi import messages
from mx_kvstore_mpi.agreement import Told, compare
from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.messages import VALUE, Command
from mx_kvstore_mpi.parts import Part
from mx_kvstore_mpi.steps import Step, Steps
from mx_kvstore_mpi.waiting import Waiter

#: requests that are being sent at once; others wait, so that urgent ones go first. Those that wait for an answer do not
#: count: it may depend on a push of another worker that waits for one of these
_AT_ONCE = 8


@dataclass
class Request:
    """A message to the servers of a key and the values that they answer.

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
    sending: list[Any] = field(default_factory=list)
    receiving: list[Any] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)


class Requests:
    """What waits for servers. Threads: any asks, one runs `run`.

    Parameters
    ----------
    waiter : Waiter
    workers : int
        The servers' numbers in MPI follow those of the workers.
    """

    def __init__(self, waiter: Waiter, workers: int) -> None:
        self._waiter = waiter
        self._workers = workers
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._queue: list[tuple[int, int, Request]] = []
        self._steps = Steps(waiter, self._wake)
        self._under_way: list[Request] = []
        self._abandoned: list[Any] = []
        self._keys = 0
        self._stores = 0
        self._stopping = False
        self.inside = 0.0
        waiter.fault.listen(self._fail)

    # ---- from any thread ----

    def new_key(self) -> int:
        """The next key's number. All workers ask in the same order."""
        with self._changed:
            self._keys += 1
            return self._keys - 1

    def new_store(self) -> int:
        """The next store's number. All workers ask in the same order."""
        with self._changed:
            self._stores += 1
            return self._stores - 1

    def ask(self, request: Request, priority: int) -> None:
        """Hands over a request whose arrays may be used from now on."""
        with self._changed:
            error = self._waiter.fault.error
            if error is None:
                heapq.heappush(self._queue, (-priority, next(self._order), request))
                self._changed.notify()
        if error is not None:
            request.done(error)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def do(self, called: str, run: Callable[[Any], Any]) -> Any:
        """Runs a step on the communication thread, after those before it, and returns what it gives. Blocks.

        `run` gets the communicator of all processes, and that of workers.
        """
        return self._steps.do(called, run)

    def meet(self, called: str, details: Told = ()) -> None:
        """Waits until all workers have come to the same step with the same details. Blocks.

        Raises
        ------
        ProtocolError  another worker has come to another step, or with other details
        """
        told = called, *details
        self.do(called, lambda comms: compare(comms[1], lambda each: self.wait(each.Test, called), told))

    def stop(self) -> None:
        """Ends `run` once nothing waits any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _fail(self, error: MXNetError) -> None:
        with self._changed:
            requests = [each for *_, each in self._queue] + self._under_way
            self._abandoned.append(self._under_way)  # a message may still fill their memory
            self._queue, self._under_way = [], []
            self._changed.notify_all()
        for request in requests:
            request.done(type(error)(*error.args))
        self._steps.fail(error)

    # ---- the communication thread ----

    def run(self, comm: Any) -> None:
        """Works until `stop`, or the job has failed; raises what is wrong."""
        workers = comm.Split(0, comm.Get_rank())
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
            self._begin(comm)
            if self._under_way:
                self._waiter.until(self._progress, self._oldest, needs=lambda: ())

    def _has_work(self) -> bool:
        waiting = self._queue or self._steps.first or self._under_way
        return bool(waiting or self._stopping or self._waiter.fault.error is not None)

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

    def _begin(self, comm: Any) -> None:
        """Starts what waits, as long as not too much is under way."""
        while True:
            with self._changed:
                if not self._queue or self._busy():
                    return
                request = heapq.heappop(self._queue)[2]
                self._under_way.append(request)
            for part in request.parts:
                to = self._workers + part.server
                elements = slice(part.begin, part.end)
                if request.receive is not None:
                    values = request.receive[elements].view("uint8")
                    request.receiving.append(comm.Irecv(values, to, VALUE + request.number))
                data = None
                if request.compression is not None:
                    data = _codes(request, elements)
                elif request.send is not None:
                    data = request.send[elements]
                text = None if request.text is None else request.text(part)
                request.sending += messages.send(comm, to, request.command, request.number, text, data)

    def _busy(self) -> bool:
        return sum(bool(request.sending) for request in self._under_way) >= _AT_ONCE

    def _progress(self) -> bool:
        """Ends what is complete; true if something is, or if there is something new to start."""
        changed = False
        for request in list(self._under_way):
            request.sending = [each for each in request.sending if not each.Test()]
            request.receiving = [each for each in request.receiving if not each.Test()]
            if not request.sending and not request.receiving:
                with self._changed:
                    if request in self._under_way:
                        self._under_way.remove(request)
                request.done(None)
                changed = True
        if changed:
            return True
        with self._changed:
            return bool(self._steps.first or (self._queue and not self._busy()))

    def wait(self, ready: Callable[[], bool], what: str, needs: Collection[int] | None = None) -> None:
        """For steps: waits, while requests go on; as `Waiter.until`."""

        def both() -> bool:
            self._progress()
            return ready()

        self._waiter.until(both, lambda: what, needs=lambda: needs)


def _codes(request: Request, elements: slice) -> Values:
    """What is sent of some elements of a gradient."""
    assert request.compression is not None and request.send is not None and request.residual is not None
    gradient, residual = request.send[elements], request.residual[elements]
    codes = np.empty(request.compression.words(gradient.size), np.uint32)
    request.compression.compress(gradient, residual, codes)
    return codes
