# SPDX-License-Identifier: Apache-2.0
"""A parameter server: holds values, sums the pushes of workers or applies each at once, runs the optimizer."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from mx_core import dtypes, lifecycle
from mx_core.errors import MXNetError
from mx_engine.profiler.told import run_here
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore.storage import DEFAULT, name_of
from mx_kvstore.updater import Updater, updater_for
from mx_kvstore_mpi import compressions, messages, settings, world
from mx_kvstore_mpi.agreement import some
from mx_kvstore_mpi.described import made
from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.messages import HEAD, VALUES, Command, Head
from mx_kvstore_mpi.outbox import Outbox, Sending, bytes_at_once
from mx_kvstore_mpi.server_value import Value
from mx_kvstore_mpi.waiting import LATE, NEWS, Yields

#: seconds of the shortest and the longest pause when no message comes, and messages that are looked for without one
_SHORT, _LONG, _EAGER = 20e-6, 1e-3, 50
_PUSHES = (Command.PUSH, Command.PUSH_ONLY)
#: what others are told that a server does which waits for nothing
SERVES = "serves"


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
        self._values: dict[int, Value] = {}
        self._waiting: dict[int, list[tuple[int, Head, Any]]] = {}
        self._boxes: dict[int, Outbox] = {}
        self._updaters: dict[int, Updater] = {}
        self._compressions: dict[int, Compression] = {}
        self._asked: dict[int, dict[int, list[Compression]]] = {}  # of a store, by each worker in turn
        self._missed_since = 0.0
        self._status = SERVES
        #: by worker and priority, numbers of keys and their values
        self._small: dict[tuple[int, int], list[tuple[int, Values]]] = {}

    def stop(self) -> None:
        """Ends `run`."""
        self._stopping.set()

    def run(self, comm: Any) -> None:
        """Serves workers until `stop`, or until the job has failed."""
        try:
            with np.errstate(all="ignore"):  # values may overflow, which is no failure of the job
                self._run(comm)
        except (PeerLostError, PeerTimeoutError):
            raise
        except MXNetError as error:
            if self._world.fault.set(error) and self._world.membership is not None:
                self._world.membership.refuse(
                    str(error)
                )  # so workers hear more than that this server has ended
            raise

    def _run(self, comm: Any) -> None:
        comm.Split(1, comm.Get_rank())  # the workers make a communicator of their own
        idle, pause, silent, yields = 0, _SHORT, 0.0, Yields()
        while not self._stopping.is_set() and self._world.fault.error is None:
            if (packet := messages.there(comm, HEAD)) is not None:
                idle, pause, silent = 0, _SHORT, 0.0
                self._say(SERVES)
                self.inside = time.monotonic()
                self._take(comm, *packet)
                self.inside = 0.0
            for box in self._boxes.values():
                box.go()
            idle += 1
            if idle == 1:
                continue  # there may be another message
            if idle > _EAGER or not yields.give_way():
                time.sleep(pause)
                silent += pause
                if silent > LATE:
                    self._look_for_missing()
                    self._say(self._waited_for())
                    silent = 0.0
                busy = not all(box.empty for box in self._boxes.values())
                pause = _SHORT if busy else min(1.5 * pause, _LONG)

    def _look_for_missing(self) -> None:
        """Ends the job if something waits for a worker that has ended in good order, whose messages are all read."""
        membership, workers = self._world.membership, self._world.job.numbers("worker")
        left = set() if membership is None else membership.left.intersection(workers)
        if not left:
            return
        for value in self._values.values():
            if value.in_round and left.difference(value.pushed):
                others = _names(self._world.job, set(value.pushed).difference(left)) or "another worker"
                before = value.waits_for - 1
                made = f" after {before} push{'' if before == 1 else 'es'} of key {value.key!r}"
                self._miss(left.difference(value.pushed), f"{made}, and {others} waits: push {before + 1}")
                return
        if self._waiting and 0 in left:
            asking = {source for waiting in self._waiting.values() for source, _, _ in waiting}
            self._miss({0}, f", and {_names(self._world.job, asking)} waits: a first value")

    def _waited_for(self) -> str:
        """What the others are told: which workers have not pushed what others have, or not given a first value."""
        missing: dict[int, list[str]] = {}
        for value in self._values.values():
            if value.in_round:
                for worker in set(self._world.job.numbers("worker")).difference(value.pushed):
                    missing.setdefault(worker, []).append(f"push {value.waits_for} of key {value.key!r}")
        for number, waiting in self._waiting.items():
            key = next((repr(declared["key"]) for _, _, declared in waiting if declared), f"number {number}")
            missing.setdefault(0, []).append(f"the first value of key {key}")
        called = self._world.job.called
        found = [f"{called(worker)}: {some(missing[worker])}" for worker in sorted(missing)]
        return f"waits for {', and for '.join(found)}" if found else SERVES

    def _say(self, status: str) -> None:
        if status != self._status and self._world.membership is not None:
            self._status = status
            self._world.membership.say(status)

    def _miss(self, numbers: set[int], what: str) -> None:
        """Has the hub tell all how workers have ended that others wait for; without it, this server does."""
        assert self._world.membership is not None
        if not self._missed_since:
            self._missed_since = time.monotonic()
            self._world.membership.miss(numbers, what)
        elif time.monotonic() - self._missed_since > NEWS:
            self._refuse(f"[KVStore] {_names(self._world.job, numbers)} has ended its program{what}")

    def _take(self, comm: Any, source: int, size: int) -> None:
        """A packet of messages."""
        for head, text, _, data in messages.receive(
            comm, source, size, lambda head, text: self._room(head, text, source)
        ):
            if head.command in _PUSHES:
                self._push(comm, head, source, data)
            elif head.command is Command.INIT:
                self._init(comm, head, text, data)
            elif head.command is Command.PULL:
                self._pull(comm, head, source, text)
            else:
                self._send_small()
                self._command(comm, source, head.command, text, data)
        self._send_small()

    def _room(self, head: Head, text: Any, source: int) -> Values:
        """Memory for the data of a message, which may be refused."""
        if head.storage != DEFAULT:
            key = self._values[head.key].key if head.key in self._values else (text or {}).get("key")
            self._refuse(
                f"[KVStore] {self._world.job.called(source)} sent a {name_of(head.storage)} value of key {key!r}; "
                "servers keep dense values only"
            )
        if head.command not in _PUSHES:
            return np.empty(head.data, np.uint8)
        if head.key not in self._values:
            raise ProtocolError(f"[KVStore server] a push of key number {head.key}, which has no value yet")
        value = self._values[head.key]
        if head.command is Command.PUSH:
            self._check_push(value, source)
        self._check_step(value, head, source)
        self._check_turn(value, head, source)
        compression = self._compressions.get(value.store)
        room = value.room(source, head.begin)
        expected = room.nbytes if compression is None else 4 * compression.words(room.size)
        if head.data != expected:
            raise ProtocolError(
                f"[KVStore server] key {value.key!r}: expected {expected} bytes, got {head.data}"
            )
        return room.view(np.uint8) if compression is None else np.empty(head.data, np.uint8)

    def _check_step(self, value: Value, head: Head, source: int) -> None:
        """Refuses slices of another size than those of worker 0."""
        if head.step != value.step:
            self._refuse(
                f"[KVStore] key {value.key!r}: values travel in slices of {value.step} elements for worker 0, of "
                f"{head.step} for {self._world.job.called(source)}; MXNET_KVSTORE_SLICE_THRESHOLD must be the same "
                "for all workers"
            )

    def _check_turn(self, value: Value, head: Head, source: int) -> None:
        """Refuses a push that is not the same one as those of the others, because one before it failed and never came.

        A push that failed in all workers is missed by none.
        """
        if not head.push:
            return
        if not value.in_round:
            value.turn = head.push
        if head.push == value.turn:
            return
        job, later = self._world.job, head.push > value.turn
        mine, theirs = job.called(source), _names(job, value.pushed)
        ahead, behind = (mine, theirs) if later else (theirs, mine)
        self._refuse(
            f"[KVStore] key {value.key!r}: push {max(head.push, value.turn)} of {ahead} came, and push "
            f"{min(head.push, value.turn)} has not: it failed there, and what {behind} pushed waits for it"
        )

    def _check_declared(self, value: Value, text: dict[str, Any], source: int) -> None:
        """Refuses a first value of another shape or type than that of worker 0, or of another key."""
        mine, theirs = (value.key, *value.declared), (text["key"], tuple(text["whole"]), int(text["dtype"]))
        if mine != theirs:
            first, other = (
                f"{key!r} of shape {shape} and type {dtypes.name(code)}"
                for key, shape, code in (mine, theirs)
            )
            called = self._world.job.called(source)
            self._refuse(f"[KVStore] first values differ: worker 0 has key {first}, {called} has key {other}")

    def _init(self, comm: Any, head: Head, text: dict[str, Any], data: Values) -> None:
        code = int(text["dtype"])
        stored = data.view(dtypes.numpy_dtype(code)).copy()
        self._values[head.key] = Value(
            int(text["store"]),
            text["key"],
            stored,
            tuple(text["shape"]),
            code,
            head.step,
            tuple(text["whole"]),
        )
        for source, asked, declared in self._waiting.pop(head.key, ()):
            self._pull(comm, asked, source, declared)

    def _pull(self, comm: Any, head: Head, source: int, declared: Any) -> None:
        if head.key not in self._values:
            self._waiting.setdefault(head.key, []).append((source, head, declared))
            return
        value = self._values[head.key]
        if declared is not None:
            self._check_declared(value, declared, source)
        self._check_step(value, head, source)
        stored = value.stored.copy()  # it may change meanwhile
        self._send(comm, source, head.key, head.priority, [stored[each] for each in value.slices])

    def _send(self, comm: Any, to: int, number: int, priority: int, slices: list[Values]) -> None:
        """Has slices of a value sent, which stay as they are until the worker has them."""
        value = self._values[number]
        if to not in self._boxes:
            self._boxes[to] = Outbox(comm, to, VALUES, bytes_at_once(value.step))
        if value.small and len(value.slices) == 1:
            self._small.setdefault((to, priority), []).append((number, slices[0]))
            return
        sendings = (
            Sending(each.nbytes, partial(messages.encoded_value, number, each, value.small), _nothing)
            for each in slices
        )
        self._boxes[to].put(priority, sendings)

    def _send_small(self) -> None:
        """Has small values sent that a packet has made ready, as many at once as one has room for."""
        for (to, priority), found in self._small.items():
            most = messages.at_once(values.nbytes for _, values in found)
            chunks = [found[at : at + most] for at in range(0, len(found), most)]
            self._boxes[to].put(priority, map(_sending, chunks))
        self._small.clear()

    def _push(self, comm: Any, head: Head, source: int, data: Values) -> None:
        value = self._values[head.key]
        compression = self._compressions.get(value.store)
        if compression is not None:
            compression.expand(data.view(np.uint32), value.room(source, head.begin))
        place = value.take(source, head.priority)
        if head.command is Command.PUSH:
            self._add(comm, head.key, value, place)
        elif value.is_last(place):
            updater = self._updaters.get(value.store)
            if updater is None:
                raise ProtocolError(
                    f"[KVStore server] key {value.key!r}: a push to be applied at once, and no optimizer"
                )
            value.update(updater, [source])
            value.end([source])

    def _add(self, comm: Any, number: int, value: Value, place: int) -> None:
        """A slice of one more worker; once it is there of all, they get the sum of it, or all the updated value."""
        workers = self._world.job.numbers("worker")
        if not value.is_common(place, len(workers)):
            return
        updater, priorities = self._updaters.get(value.store), dict(value.priorities)
        ready = [value.slices[place]] if updater is None else value.slices
        if updater is None:
            value.sum_slice(place)
        elif value.is_last(place):
            value.update(updater, list(workers))
        else:
            return
        if value.is_last(place):
            value.end(list(workers))
        # No slice changes until all workers have it: with several, none of them is ahead of the others by a push.
        found = [value.stored[each] if len(workers) > 1 else value.stored[each].copy() for each in ready]
        for worker in workers:
            self._send(comm, worker, number, priorities[worker], found)

    # ---- compression ----

    def _check_push(self, value: Value, source: int) -> None:
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


def _names(job: Job, numbers: Iterable[int]) -> str:
    return ", ".join(map(job.called, sorted(numbers)))


def _sending(found: list[tuple[int, Values]]) -> Sending:
    """Small values as one message."""

    def encode() -> messages.Encoded:
        parts = [messages.encoded_value(number, values, True).record for number, values in found]
        return messages.Encoded(list(itertools.chain.from_iterable(parts)), [])

    size = sum(values.nbytes + messages.OVERHEAD for _, values in found)
    return Sending(size, encode, _nothing)


def _nothing() -> None:
    """What is done when a slice has been sent."""


def serve(place: settings.Place) -> int:
    """Joins the job as a server, and serves until all workers have ended; the exit status. Blocks."""
    make: Callable[[world.World], Server] = Server
    joined = world.World(place, make)
    assert joined.membership is not None
    try:
        joined.membership.leave(float("inf"), SERVES)  # it ends when the last worker does
        error = joined.fault.error
        if error is not None and not joined.membership.told:  # else the launcher says it, once for all
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
