# SPDX-License-Identifier: Apache-2.0
"""A parameter server: holds values, sums the pushes of workers or applies each at once, runs the optimizer."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from mx_core import dtypes, lifecycle
from mx_core.errors import MXNetError
from mx_engine.profiler.told import run_here
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore.updater import Updater, updater_for
from mx_kvstore_mpi import compressions, messages, settings, world
from mx_kvstore_mpi.described import made
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.messages import HEAD, VALUE, Command
from mx_kvstore_mpi.reduction import native
from mx_kvstore_mpi.waiting import LATE
from mx_ndarray import NDArray
from mx_ndarray._core import share_numpy

#: seconds of the shortest and the longest pause when no message comes, and messages that are looked for without one
_SHORT, _LONG, _EAGER = 20e-6, 1e-3, 50


@dataclass
class _Value:
    store: int
    key: Any
    stored: Values
    array: NDArray
    pushed: dict[int, Values] = field(default_factory=dict)
    free: dict[int, Values] = field(default_factory=dict)
    merged: Values | None = None
    merged_array: NDArray | None = None


def _shared(values: Values, shape: tuple[int, ...], code: int) -> NDArray:
    return share_numpy(values.reshape(shape), code)


class Server:
    """What a server's communication thread runs. Threads: one runs `run`; `stop` from any.

    Parameters
    ----------
    joined : World
    """

    def __init__(self, joined: world.World) -> None:
        self.inside = 0.0
        self._world = joined
        self._stopping = threading.Event()
        self._values: dict[int, _Value] = {}
        self._waiting: dict[int, list[int]] = {}
        self._sending: list[tuple[Any, Values]] = []
        self._updaters: dict[int, Updater] = {}
        self._compressions: dict[int, Compression] = {}
        self._asked: dict[int, dict[int, list[Compression]]] = {}  # of a store, by each worker in turn

    def stop(self) -> None:
        """Ends `run`."""
        self._stopping.set()

    def run(self, comm: Any) -> None:
        """Serves workers until `stop`, or until the job has failed."""
        with np.errstate(all="ignore"):  # values may overflow, which is no failure of the job
            self._run(comm)

    def _run(self, comm: Any) -> None:
        from mpi4py import MPI

        comm.Split(1, comm.Get_rank())  # the workers make a communicator of their own
        status = MPI.Status()
        idle, pause, silent = 0, _SHORT, 0.0
        while not self._stopping.is_set() and self._world.fault.error is None:
            if comm.Iprobe(MPI.ANY_SOURCE, HEAD, status):
                idle, pause, silent = 0, _SHORT, 0.0
                self.inside = time.monotonic()
                self._take(comm, status.Get_source())
                self.inside = 0.0
            self._sending = [each for each in self._sending if not each[0].Test()]
            idle += 1
            if idle > _EAGER:
                time.sleep(pause)
                silent += pause
                if silent > LATE:
                    self._look_for_missing()
                    silent = 0.0
                pause = _SHORT if self._sending else min(1.5 * pause, _LONG)
            else:
                os.sched_yield()

    def _look_for_missing(self) -> None:
        """Ends the job if something waits for a worker that has ended in good order, whose messages are all read."""
        membership, workers = self._world.membership, self._world.job.numbers("worker")
        left = set() if membership is None else membership.left.intersection(workers)
        if not left:
            return
        missing = [
            (f"the push of key {value.key!r}", left.difference(value.pushed))
            for value in self._values.values()
            if value.pushed
        ]
        missing += [("a first value", left.intersection({0}))] if self._waiting else []
        for called, gone in missing:
            if gone:
                names = ", ".join(map(self._world.job.called, sorted(gone)))
                text = f"[KVStore] {names} has ended its program, and another worker waits: {called}"
                self._refuse(text)

    def _take(self, comm: Any, source: int) -> None:
        command, number, text, data = messages.receive(
            comm, source, lambda c, k, t, size: self._room(c, k, size, source)
        )
        if command is Command.INIT:
            self._init(comm, number, text, data)
        elif command is Command.PULL:
            self._pull(comm, number, source)
        elif command in (Command.PUSH, Command.PUSH_ONLY):
            self._push(comm, number, source, data, command is Command.PUSH)
        else:
            self._command(comm, source, command, text, data)

    def _room(self, command: Command, number: int, size: int, source: int) -> Values:
        """Memory for the data of a message."""
        if command not in (Command.PUSH, Command.PUSH_ONLY):
            return np.empty(size, np.uint8)
        if number not in self._values:
            raise ProtocolError(f"[KVStore server] a push of key number {number}, which has no value yet")
        value = self._values[number]
        if command is Command.PUSH:
            self._check_push(value, source)
        compression = self._compressions.get(value.store)
        expected = value.stored.nbytes if compression is None else 4 * compression.words(value.stored.size)
        if size != expected:
            raise ProtocolError(f"[KVStore server] key {value.key!r}: expected {expected} bytes, got {size}")
        if compression is not None:
            return np.empty(size, np.uint8)
        return _room_of(value, source).view(np.uint8)

    def _init(self, comm: Any, number: int, text: dict[str, Any], data: Values) -> None:
        code = int(text["dtype"])
        stored = data.view(dtypes.numpy_dtype(code)).copy()
        self._values[number] = _Value(
            int(text["store"]), text["key"], stored, _shared(stored, tuple(text["shape"]), code)
        )
        for source in self._waiting.pop(number, ()):
            self._send(comm, source, number)

    def _pull(self, comm: Any, number: int, source: int) -> None:
        if number in self._values:
            self._send(comm, source, number)
        else:
            self._waiting.setdefault(number, []).append(source)

    def _send(self, comm: Any, to: int, number: int) -> None:
        """Begins to send a value; a copy of it, as it may change meanwhile."""
        values = self._values[number].stored.copy()
        self._sending.append((comm.Isend(values.view(np.uint8), to, VALUE + number), values))

    def _push(self, comm: Any, number: int, source: int, data: Values, together: bool) -> None:
        value = self._values[number]
        compression = self._compressions.get(value.store)
        if compression is None:
            value.pushed[source] = data.view(value.stored.dtype)
        else:
            value.pushed[source] = _room_of(value, source)
            compression.expand(data.view(np.uint32), value.pushed[source])
        if together and len(value.pushed) < self._world.job.workers:
            return
        self._update(value)
        if together:
            for worker in self._world.job.numbers("worker"):
                if self._world.job.workers > 1:
                    self._sending.append(
                        (comm.Isend(value.stored.view(np.uint8), worker, VALUE + number), value.stored)
                    )
                else:
                    self._send(comm, worker, number)

    def _update(self, value: _Value) -> None:
        """Sums what was pushed, in the order of workers, and updates or replaces the value."""
        pushed = [value.pushed[source] for source in sorted(value.pushed)]
        value.free, value.pushed = value.pushed, {}
        updater = self._updaters.get(value.store)
        if updater is None:
            _sum(pushed, value.stored)
            return
        if value.merged is None or value.merged_array is None:
            value.merged = np.empty_like(value.stored)
            value.merged_array = _shared(value.merged, value.array.shape, value.array._dtype_code)
        _sum(pushed, value.merged)
        updater(value.key, value.merged_array, value.array)
        value.merged_array.wait_to_write()
        value.array.wait_to_read()

    # ---- compression ----

    def _check_push(self, value: _Value, source: int) -> None:
        """Refuses a push of a worker that has not set the compression that another one has.

        That one has the answers to all it had pushed before, so this worker's next push belongs to what comes after.
        """
        asked = self._asked.get(value.store, {})
        mine = asked.get(source, [])
        for other, found in asked.items():
            if len(found) > len(mine):
                self._differ(
                    f"the push of key {value.key!r}", other, found[-1], source, mine[-1] if mine else None
                )

    def _compress(self, store: int, source: int, how: Compression) -> None:
        """A worker sets a compression; it is used once all have, who push nothing in between."""
        asked = self._asked.setdefault(store, {})
        mine = asked.setdefault(source, [])
        mine.append(how)
        for other, found in asked.items():
            if len(found) >= len(mine) and found[len(mine) - 1] != how:
                self._differ(f"call {len(mine)}", other, found[len(mine) - 1], source, how)
        if sum(len(found) >= len(mine) for found in asked.values()) == self._world.job.workers:
            self._compressions[store] = how

    def _differ(
        self, called: str, one: int, first: Compression, other: int, second: Compression | None
    ) -> NoReturn:
        job, mark = self._world.job, compressions.mark
        text = compressions.differ(called, job.called(one), mark(first), job.called(other), mark(second))
        self._refuse(text)

    def _refuse(self, text: str) -> NoReturn:
        """Fails the job in all processes."""
        if self._world.membership is not None:
            self._world.membership.refuse(text)
        raise ProtocolError(text)

    def _command(self, comm: Any, source: int, command: Command, text: Any, data: Values) -> None:
        """A command that is answered; what is wrong with it is the worker's error."""
        try:
            found, store = b"", int(text["store"])
            updater: Any = self._updaters.get(store)
            if command is Command.OPTIMIZER:
                self._updaters[store] = updater_for(made(text))
            elif command is Command.COMPRESSION:
                self._compress(store, source, Compression(text["type"], text["threshold"]))
            elif command is Command.PROFILE:
                run_here(self._world.rank, text["command"], text["arguments"])
            elif command is Command.FLUSH:
                pass
            elif updater is None:
                raise MXNetError("no optimizer is set; call set_optimizer first")
            elif command is Command.RATES:
                for name, rate in text["rates"].items():
                    setattr(updater.optimizer, name, rate)
            elif command is Command.SAVE:
                found = bytes(updater.get_states(bool(text["dump"])))
            else:
                updater.set_states(bytearray(data.tobytes()))
            messages.answer(comm, source, data=found)
        except ProtocolError:  # of the job, which all have been told
            raise
        except (MXNetError, AttributeError, KeyError, TypeError) as error:
            messages.answer(comm, source, error=f"{error}" or repr(error))


def _room_of(value: _Value, source: int) -> Values:
    """Memory for a push, again that of an earlier one of the same worker."""
    free = value.free.pop(source, None)
    return np.empty(value.stored.size, value.stored.dtype) if free is None else free


def _sum(pushed: list[Values], merged: Values) -> None:
    if len(pushed) == 1:
        np.copyto(merged, pushed[0])
    elif native(merged.dtype):
        np.add(pushed[0], pushed[1], out=merged)
        for other in pushed[2:]:
            merged += other
    else:
        wide = pushed[0].astype(np.float32)
        for other in pushed[1:]:
            wide += other.astype(np.float32)
        merged[:] = wide.astype(merged.dtype)


def serve(place: settings.Place) -> int:
    """Joins the job as a server, and serves until all workers have ended; the exit status. Blocks."""
    make: Callable[[world.World], Server] = Server
    joined = world.World(place, make)
    assert joined.membership is not None
    try:
        joined.membership.leave(float("inf"))  # a server ends when the last worker does
        error = joined.fault.error
        if error is not None:
            print(f"mx: {error}", file=sys.stderr, flush=True)
        return 0 if error is None else 1
    finally:
        joined.close()


def main() -> int:
    """Of `python -m mx_kvstore_mpi.server`."""
    try:
        return serve(settings.place())
    except MXNetError as error:
        print(f"mx: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        lifecycle.interrupt()
        return 130


if __name__ == "__main__":
    sys.exit(main())
