# SPDX-License-Identifier: Apache-2.0
"""The communication thread of a worker: which keys are ready on all workers, and their sums.

Gradients become ready in another order on each worker. So the workers agree in rounds: each tells which keys it has
ready, and with what priority; a key that all have ready is summed, larger priorities first. While a round's sums are
under way the next gradients are computed. In a round workers also compare what they are to do, since an exchange of one
kind that meets one of another has no meaning.

Workers of one machine do all of this natively, through memory that they share: the thread holds no GIL, and sleeps
while it waits. So do those of several machines with TCP between them, over connections of their own. Others do it by
MPI. Where a machine has more than one worker, these add in it first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore.exchange import (
    CODES,
    FIRST,
    SUM,
    Exchange,
    Found,
    Links,
    Request,
    Window,
    parts_of,
    push,
    text_of,
)
from mx_kvstore_mpi.agreement import Told, digest, disagree, of_keys
from mx_kvstore_mpi.errors import PeerTimeoutError
from mx_kvstore_mpi.hierarchy import Hierarchy, hierarchy
from mx_kvstore_mpi.links import Network, linked
from mx_kvstore_mpi.reduction import BUCKET, SMALL, Summation, broadcast
from mx_kvstore_mpi.shared import see_arrays, shared_window
from mx_kvstore_mpi.steps import Step, Steps
from mx_kvstore_mpi.waiting import Wait, Waiter
from mx_ndarray import NDArray

#: seconds between two looks at whether the job goes on
_LOOK = 0.1

_KINDS = {"1bit": 1, "2bit": 2}
_NAMES = {bits: kind for kind, bits in _KINDS.items()}

#: what sums by messages
Sums = Summation | Hierarchy


class Rounds:
    """What waits for other workers, and the rounds in which it is done. Threads: any asks, one runs `run`.

    Parameters
    ----------
    waiter : Waiter
    together : bool
        Whether all workers are on one machine, where they may share memory.
    network : Network, optional
        How they reach each other without MPI.
    """

    def __init__(self, waiter: Waiter, together: bool = True, network: Network | None = None) -> None:
        self._waiter = waiter
        self._together = together
        self._network = network
        self._exchange = Exchange(lambda: waiter.fault.error)
        self._steps = Steps(waiter, self._tell_step)
        self._transport: Window | Links | None = None
        self._hierarchy: Hierarchy | None = None
        self._under_way: list[Request] = []
        self._abandoned: list[Any] = []
        self._keys: list[str] = []
        self._stopping = False
        self._inside = 0.0
        waiter.fault.listen(self._fail)

    @property
    def inside(self) -> float:
        """Since when arrays are being exchanged (`time.monotonic()`), where the thread cannot be asked; or 0."""
        return self._inside or self._exchange.inside

    # ---- from any thread ----

    def new_key(self, key: Any) -> int:
        """The number of the next key, which is called so. All workers ask in the same order."""
        self._keys.append(repr(key))
        return self._exchange.new_key()

    @property
    def keys(self) -> int:
        """How many keys have a number."""
        return len(self._keys)

    def first(self, key: int, told: Told, value: NDArray, priority: int) -> None:
        """Gives all workers the value of worker 0; asynchronous.

        Parameters
        ----------
        key : int
            Of `new_key`.
        told : tuple of str
            What it is, for messages, then key, shape, type and settings. It must be the same on all workers.
        value : NDArray
            In main memory.
        priority : int
            Larger ones go first.
        """
        push(self._exchange, FIRST, key, text_of(told), digest(told), priority, (), (value,))

    def sum(
        self,
        key: int,
        told: tuple[str, int],
        send: NDArray,
        targets: tuple[NDArray, ...],
        priority: int,
        compression: Compression | None = None,
        residual: NDArray | None = None,
    ) -> None:
        """Sums over workers; asynchronous.

        Parameters
        ----------
        key, priority
            As of `first`.
        told : tuple of str and int
            `text_of` and `digest` of what it is.
        send : NDArray
            In main memory; may be one of the targets.
        targets : tuple of NDArray
            The same, of the same shape and type.
        compression : Compression, optional
            Codes of gradients are exchanged; with the `residual` of the key.
        """
        if compression is None or residual is None:
            push(self._exchange, SUM, key, *told, priority, (send,), targets)
            return
        bits, threshold = _KINDS[compression.kind], compression.threshold
        push(self._exchange, CODES, key, *told, priority, (send,), (*targets, residual), bits, threshold)

    def do(self, called: str, run: Callable[[Any], Any], details: Told = ()) -> Any:
        """Waits until all workers have asked for the same step, and returns what it gives. Blocks.

        Parameters
        ----------
        called : str
        run : callable
            (communicator) -> result.
        details : tuple of str
            Must be the same on all workers, too, as must be the keys that have a number.
        """
        return self._steps.do(called, run, (*details, of_keys(len(self._keys))))

    def stop(self) -> None:
        """Ends `run` once nothing waits any more."""
        self._stopping = True
        self._exchange.wake()

    def _tell_step(self) -> None:
        step = self._steps.first
        self._exchange.set_step(0 if step is None else digest(step.told) | 1)

    def _fail(self, error: MXNetError) -> None:
        """Ends everything that waits, on the thread that found the failure."""
        for each in (self._transport, self._hierarchy):
            if each is not None:
                each.stop()
        self._exchange.fail()
        requests, self._under_way = self._under_way, []
        self._abandoned.append(requests)  # a message may still fill their memory
        for request in requests:
            request.complete(type(error)(*error.args))
        self._steps.fail(error)

    # ---- the communication thread ----

    def run(self, comm: Any) -> None:
        """Works until `stop`, or the job has failed; raises what is wrong."""
        with np.errstate(all="ignore"):  # values may overflow, which is no failure of the job
            self._run(comm)

    def _run(self, comm: Any) -> None:
        window = self._transport = shared_window(comm, self._wait, self._together)
        if window is None:
            self._inside = time.monotonic()
            self._hierarchy = hierarchy(comm, self._flow, self._waiter.fault, self._network)
            if self._hierarchy is None:
                self._transport = linked(comm, self._wait, self._network)
            self._inside = 0.0
        else:
            see_arrays(comm, self._wait, window)
        summation = self._hierarchy or Summation(comm, self._flow)
        wait: Wait | None = None
        while self._waiter.fault.error is None:
            if self._stopping and self._exchange.idle:
                return
            if self._transport is not None and self._exchange.fits(self._transport):
                found = self._exchange.run(self._transport, _LOOK)
                if found.what == "failed":
                    self._tell_failure(self._transport)
            else:
                found = self._by_messages(comm, summation)
            if found.what == "apart":
                self._check_deadline()
            if found.what in ("waits", "apart"):
                wait = wait or self._waiter.begin(self._oldest)
                wait.look()
            elif wait is not None:
                wait.end()
                wait = None
            if found.differs:
                disagree(comm, self._wait, self._differing(found), self._keys)
            if found.step:
                self._step(comm)

    def _tell_failure(self, transport: Window | Links) -> None:
        """Raises how a connection has broken. Who is lost the hub says."""
        if isinstance(transport, Links) and transport.broken and self._waiter.fault.error is None:
            raise ConnectionError(transport.broken)

    def _by_messages(self, comm: Any, summation: Sums) -> Any:
        """One round by MPI."""
        from mpi4py import MPI

        if not self._exchange.ready(_LOOK):
            return _NOTHING
        mine = self._exchange.tell()
        least = np.empty_like(mine)
        self._wait(comm.Iallreduce(mine, least, op=MPI.MIN))
        found = self._exchange.decide(least)
        if found.what == "apart":
            self._exchange.rest()
        elif found.requests:
            self._send(comm, summation, found.requests)
        return found

    def _wait(self, request: Any) -> None:
        self._waiter.until(request.Test, self._oldest)

    def _flow(self, request: Any) -> None:
        """As `_wait`, for what all workers have begun."""
        self._waiter.until(request.Test, self._oldest, flowing=lambda: True)

    def _oldest(self) -> str:
        waited, text = self._exchange.oldest()
        step = self._steps.first
        if step is not None and (waited < 0 or time.monotonic() - step.since > waited):
            return step.called
        return "the next push" if waited < 0 else parts_of(text)[0]

    def _check_deadline(self) -> None:
        waited, _ = self._exchange.oldest()
        step = self._steps.first
        if step is not None:
            waited = max(waited, time.monotonic() - step.since)
        if waited > self._waiter.timeout:
            raise PeerTimeoutError(
                f"[KVStore] waited {self._waiter.timeout:g} s: {self._oldest()}, while other workers wait for "
                f"something else ({self._waiter.others()}); all must push the same keys and call the same methods"
            )

    def _differing(self, found: Found) -> Told:
        """What this worker is to do where others are to do something else."""
        if found.told:
            return parts_of(found.told)
        step = self._steps.first
        return ("a step that has ended",) if step is None else step.told

    def _step(self, comm: Any) -> None:
        """Runs a step that all workers ask for."""
        step: Step | None = self._steps.first
        if step is None:  # the job has failed
            return
        self._inside = time.monotonic()
        result = step.run(comm)
        self._inside = 0.0
        self._steps.finish(step, result)

    # ---- by MPI ----

    def _send(self, comm: Any, summation: Sums, requests: list[Request]) -> None:
        self._under_way = requests
        if self._waiter.fault.error is not None:  # perhaps it was found before the list was there
            self._fail(self._waiter.fault.error)
            return
        small: dict[np.dtype[Any], list[Request]] = {}
        large: list[Request] = []
        self._inside = time.monotonic()
        for request in requests:
            receive = _receive(request)
            if request.kind == FIRST:
                self._wait(broadcast(comm, receive))
                request.complete(None)
            elif request.kind == CODES:
                how = Compression(_NAMES[request.bits], request.threshold)
                residual = np.frombuffer(_there(request.residual), np.float32)
                summation.compressed(_sent(request), receive, how, residual)
                request.complete(None)
            elif receive.nbytes < SMALL:
                waiting = small.setdefault(receive.dtype, [])
                waiting.append(request)
                if sum(each.receive.nbytes for each in waiting) >= BUCKET:
                    _together(summation, small.pop(receive.dtype))
            else:
                large.append(request)
        arrays = [(_sent(each), _receive(each)) for each in large]
        summation.several(arrays, lambda place: large[place].complete(None))
        for waiting in small.values():
            _together(summation, waiting)
        self._inside = 0.0
        self._under_way = []


class _Nothing:
    """What a round would find without anything to do."""

    what, step, differs, told = "idle", False, False, ""


_NOTHING = _Nothing()


def _there(memory: memoryview | None) -> memoryview:
    assert memory is not None
    return memory


def _values(memory: memoryview, dtype: np.dtype[Any]) -> Values:
    return np.frombuffer(memory, dtype) if memory.nbytes else np.empty(0, dtype)


def _sent(request: Request) -> Values:
    return _values(_there(request.send), dtypes.numpy_dtype(request.dtype))


def _receive(request: Request) -> Values:
    return _values(request.receive, dtypes.numpy_dtype(request.dtype))


def _together(summation: Sums, requests: list[Request]) -> None:
    summation.together([_sent(each) for each in requests], [_receive(each) for each in requests])
    for request in requests:
        request.complete(None)
