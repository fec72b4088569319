# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker: which keys are ready on all workers, and their sums.

Gradients become ready in another order on each worker. So the workers agree in rounds: each tells which keys it has
ready, and with what priority; a key that all have ready is summed, larger priorities first. While a round's sums are
under way the next gradients are computed.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core.errors import MXNetError
from mx_kvstore.compression import Compression
from mx_kvstore_mpi import compressions
from mx_kvstore_mpi.errors import PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.reduction import BUCKET, SMALL, Summation, Values, broadcast
from mx_kvstore_mpi.waiting import Waiter

#: numbers before the keys' in what workers tell each other: whether a step waits, which, the negative of that, -keys
_HEAD = 4
#: numbers of a key, after those of the head: its priority; the mark of its compression, and the negative of that
_EACH = 3
#: what a worker says of a key that it has not ready
_ABSENT = -(2**62)
#: bytes of one round, after which what has become ready meanwhile is looked at
_ROUND = 8 * BUCKET
#: seconds between two rounds that found nothing
_PAUSE, _LONGEST = 5e-4, 5e-3


@dataclass
class Request:
    """A value that is to be summed, or to be taken from rank 0.

    Parameters
    ----------
    index : int
        Of the key, the same on all workers.
    called : str
        For messages.
    priority : int
        Larger ones go first.
    send : numpy array of one dimension, optional
        None: `receive` gets what rank 0 has there.
    receive : numpy array of one dimension
    done : callable
        Called once with None or an error; later calls do nothing.
    digest : int
        Of the key's name, shape and type, which must be the same on all workers.
    compression : Compression, optional
        With the `residual` of the key: codes are exchanged.
    """

    index: int
    called: str
    priority: int
    send: Values | None
    receive: Values
    done: Callable[[MXNetError | None], object]
    digest: int = 0
    compression: Compression | None = None
    residual: Values | None = None
    since: float = field(default_factory=time.monotonic)


@dataclass
class Step:
    """Something that all workers do once, in the order in which they ask for it."""

    called: str
    run: Callable[[Any], Any]
    ended: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: MXNetError | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def digest(self) -> int:
        """A number that tells steps apart."""
        return digest(self.called)


def digest(text: str) -> int:
    """62 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 2


def _check_compression(request: Request, least: int, most: int) -> None:
    """Refuses a key whose smallest and largest mark of a compression, over workers, differ."""
    if least != most:
        mine = compressions.mark(request.compression)
        other = most if mine == least else least
        raise ProtocolError(compressions.differ(request.called, "this worker", mine, "another one", other))


class Rounds:
    """What waits for other workers, and the rounds in which it is done. Threads: any asks, one runs `run`.

    Parameters
    ----------
    waiter : Waiter
    """

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._changed = threading.Condition()
        self._ready: dict[int, deque[Request]] = {}
        self._steps: deque[Step] = deque()
        self._under_way: list[Request] = []
        self._keys = 0
        self._width = 64  # keys that a round tells of; grows for all workers in the same round
        self._abandoned: list[Any] = []
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

    def ask(self, request: Request) -> None:
        """Hands over a request whose arrays may be used from now on."""
        with self._changed:
            error = self._waiter.fault.error
            if error is None:
                self._ready.setdefault(request.index, deque()).append(request)
                self._changed.notify()
        if error is not None:
            request.done(error)

    def do(self, called: str, run: Callable[[Any], Any]) -> Any:
        """Waits until all workers have asked for the same step, and returns what it gives. Blocks."""
        step = Step(called, run)
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
            requests = [each for queue in self._ready.values() for each in queue] + self._under_way
            steps = list(self._steps)
            self._abandoned.append(self._under_way)  # a message may still fill their memory
            self._ready, self._under_way = {}, []
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
                self._changed.wait_for(self._has_work)
                if self._waiter.fault.error is not None:
                    return
                if self._stopping and not self._ready and not self._steps:
                    return
            if self._round(comm, summation):
                pause = _PAUSE
            else:  # others are not ready, but take part: nobody may spin meanwhile
                with self._changed:
                    self._changed.wait(pause)
                pause = min(2 * pause, _LONGEST)

    def _has_work(self) -> bool:
        return bool(self._ready or self._steps or self._stopping or self._waiter.fault.error is not None)

    def _round(self, comm: Any, summation: Summation) -> bool:
        """Asks the others what they have ready, and does what all have; whether there was something."""
        with self._changed:
            step = self._steps[0] if self._steps else None
            mark = 0 if step is None else step.digest
            mine = np.full(_HEAD + _EACH * self._width, _ABSENT, np.int64)
            mine[:_HEAD] = step is not None, mark, -mark, -self._keys
            keys = mine[_HEAD:].reshape(_EACH, self._width)
            for index, queue in self._ready.items():
                if index < self._width:
                    how = compressions.mark(queue[0].compression)
                    keys[:, index] = queue[0].priority, how, -how
        least = self._least(comm, mine)
        told = least[_HEAD:].reshape(_EACH, self._width)
        while self._width < -int(least[3]):  # of the worker that has most; all see the same number
            self._width *= 2
        done = self._step(comm, step, least) if least[0] and step is not None else False
        common = self._common(told[0])
        if not common:
            if not done:
                self._check_deadline()
            return done
        for request in common:
            _check_compression(request, int(told[1, request.index]), -int(told[2, request.index]))
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
            waiting = [queue[0] for queue in self._ready.values()] + list(self._steps)
        return min(waiting, key=lambda each: each.since).called if waiting else "the next push"

    def _check_deadline(self) -> None:
        with self._changed:
            waiting = [queue[0] for queue in self._ready.values()] + list(self._steps)
        oldest = min(waiting, key=lambda each: each.since)
        if time.monotonic() - oldest.since > self._waiter.timeout:
            raise PeerTimeoutError(
                f"[KVStore] waited {self._waiter.timeout:g} s: {oldest.called}, while other workers wait for something "
                "else; all must push the same keys and call the same methods"
            )

    def _step(self, comm: Any, step: Step, head: Values) -> bool:
        """Runs a step that all workers ask for."""
        if head[1] != -head[2]:
            raise ProtocolError(
                f"[KVStore] this worker calls {step.called}, and another one calls something else; all workers must "
                "call the same methods in the same order"
            )
        self.inside = time.monotonic()
        step.result = step.run(comm)
        self.inside = 0.0
        with self._changed:
            if self._steps and self._steps[0] is step:
                self._steps.popleft()
        step.ended.set()
        return True

    def _common(self, least: Values) -> list[Request]:
        """The first request of each key that all workers have ready, in the order in which they go."""
        found = [(-int(least[index]), int(index)) for index in np.flatnonzero(least > _ABSENT)]
        with self._changed:
            if self._waiter.fault.error is not None:
                return []
            common, size = [], 0
            for _, index in sorted(found):
                if size > _ROUND:
                    break
                queue = self._ready[index]
                common.append(queue.popleft())
                size += common[-1].receive.nbytes
                if not queue:
                    del self._ready[index]
            self._under_way = common
            return common

    def _exchange(self, comm: Any, summation: Summation, common: list[Request]) -> None:
        small: dict[np.dtype[Any], list[Request]] = {}
        self.inside = time.monotonic()
        for request in common:
            if request.send is None:
                self._first(comm, request)
            elif request.compression is not None and request.residual is not None:
                summation.compressed(request.send, request.receive, request.compression, request.residual)
                request.done(None)
            elif request.receive.nbytes < SMALL:
                waiting = small.setdefault(request.receive.dtype, [])
                waiting.append(request)
                if sum(each.receive.nbytes for each in waiting) >= BUCKET:
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
        sends = [each.send for each in requests if each.send is not None]
        summation.together(sends, [each.receive for each in requests])
        for request in requests:
            request.done(None)

    def _first(self, comm: Any, request: Request) -> None:
        """A key's first value: that of rank 0, if all mean the same key."""
        mine = np.array([request.digest, -request.digest], np.int64)
        least = self._least(comm, mine)
        if least[0] != -least[1]:
            raise ProtocolError(
                f"[KVStore.init] {request.called}: another worker gives another key, shape or type its first value at "
                "this place; all workers must initialise the same keys in the same order"
            )
        self._wait(broadcast(comm, request.receive))
        request.done(None)
