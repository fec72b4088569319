# SPDX-License-Identifier: Apache-2.0
"""The stores of workers whose job has servers: values and the optimizer are on the servers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import atomic_write, read_bytes
from mx_core.forks import ForkSafeLock
from mx_kvstore import KVStore
from mx_kvstore.arrays import Values, check_compressed, in_main_memory, push
from mx_kvstore.compression import Compression
from mx_kvstore.keys import Given, pairs
from mx_kvstore.reduction import alike
from mx_kvstore_mpi import settings, world
from mx_kvstore_mpi.agreement import Told, of_optimizer, rates
from mx_kvstore_mpi.described import describe
from mx_kvstore_mpi.messages import HEAD, PACKET, Command, Head, answered, encoded, send, small
from mx_kvstore_mpi.parts import Part, parts
from mx_kvstore_mpi.requests import Request, Requests, together
from mx_ndarray import NDArray

#: what a file of states of several servers begins with
_MAGIC = b"mx-kvstore-mpi states 1\n"


class ServerStore(KVStore):
    """Pushes gradients to servers, which sum them or apply each at once, and pulls values from them.

    With `async` in its name, a push is applied at once, and a pull gives what the servers have then. Otherwise the
    servers wait for the pushes of all workers, and the new value comes back with the push.

    Parameters
    ----------
    name : str
        `dist_sync`, `dist_async` or one of these with `device`.

    Threads: as those of `mx_kvstore.KVStore`; without `async`, all workers make the same calls in the same order.
    """

    def __init__(self, name: str, joined: world.World) -> None:
        super().__init__(name)
        self._world = joined
        self._requests: Requests = joined.exchange
        self._numbers: dict[Any, int] = {}
        #: of each key, how often it was pushed, failures included: servers sum pushes of one number only
        self._pushes: dict[Any, int] = {}
        self._parts: dict[Any, list[Part]] = {}
        self._at_once = "async" in name
        self._number = self._requests.new_store()
        #: how many keys, of all stores, the workers have compared, and which of this store they have not
        self._compared = 0
        self._new: set[Any] = set()
        #: of what is agreed on before a push; it is taken without the other one, or before it
        self._agreeing = ForkSafeLock()
        self._compression: Compression | None = None
        self._residuals: dict[Any, Values] = {}
        #: what the servers have a copy of, and its rates there
        self._optimizer: Any = None
        #: keys whose last value went to the caller's array alone: a pull asks the servers for it
        self._behind: set[Any] = set()
        #: values in main memory, or room for those that are on a device: of a key always the same, by which the engine
        #: orders its pushes and pulls
        self._hosts: dict[Any, NDArray] = {}
        self._rates: dict[str, Any] = {}

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._world.rank

    @property
    def num_workers(self) -> int:
        """How many workers the job has."""
        return self._world.job.workers

    def __repr__(self) -> str:
        job = self._world.job
        return f"<KVStore {self.type!r}, worker {self.rank} of {job.workers}, {job.servers} servers>"

    def barrier(self) -> None:
        """Blocks until every worker has called it and what it pushed before is done; raises as `SyncStore.barrier`."""
        self._meet("barrier")

    def _meet(self, called: str, details: Told = ()) -> None:
        """Waits until every worker has called the same and what it pushed before is done."""
        self._world.check_process()
        self._compare_keys()  # the first value of a key that another worker does not have would never be there
        self._settle()
        self._requests.meet(called, details)

    def _compare_keys(self) -> None:
        """Waits until every worker has the same keys, if there are new ones."""
        with self._agreeing:
            keys = self._requests.keys
            if self._compared < keys:
                self._requests.meet("the first call after init", new=self._compared)
                self._compared = keys
            with self._lock:
                self._new = {key for key in self._new if self._numbers[key] >= keys}

    # ---- pushes ----

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """As the base; the first push of a new key waits until every worker has come to one."""
        self._agree("push", key, value)
        super().push(key, value, priority)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """As the base; waits as `push`."""
        self._agree("pushpull", key, value)
        super().pushpull(key, value, out, priority)

    def sum(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """As the base; waits as `push`."""
        self._agree("sum", key, value)
        super().sum(key, value, out, priority)

    def _agree(self, what: str, key: Any, value: Any) -> None:
        """Waits for other processes where a push needs it.

        That is before the store's lock is taken: other threads push other keys and pull meanwhile.
        """
        new = self._new and not self._at_once  # else other workers need not push
        if not new and not self._rates_changed():
            return
        self._check()
        given = pairs(key, value, "value")
        with self._lock:
            self._check_pushed(what, given)  # what is wrong is told at once
        if new and any(name in self._new for name, _ in given):
            self._compare_keys()
        if self._rates_changed():
            self._tell_rates()

    # ---- values ----

    def first_value(self, key: Any, stored: NDArray) -> None:
        """Worker 0 gives the servers its value; all take theirs."""
        self._check()
        place = len(self._numbers)  # in this store, so that a later job finds its states on the same server
        number = self._numbers[key] = self._requests.new_key(key)
        self._new.add(key)
        places = parts(place, stored.size, self._world.job.servers, settings.big_array_bound())
        self._parts[key] = places
        code = stored._dtype_code
        called, priority = f"the first value of key {key!r}", self.priority
        host = self._hosts[key] = in_main_memory(stored)

        def text(part: Part) -> dict[str, Any]:
            shape = list(stored.shape) if len(places) == 1 else [part.size]
            return {
                "store": self._number,
                "key": key,
                "shape": shape,
                "dtype": code,
                "whole": list(stored.shape),
            }

        def give(done: Any, values: Values) -> None:
            request = Request(number, called, Command.INIT, places, values, None, done, text)
            self._requests.ask([request], priority)

        if self.rank == 0:
            push(give, "KVStore.init", (), (host,), priority)
        else:
            self._fetch(key, host, called, priority, text)  # servers compare it with that of worker 0
        if host is not stored:
            host.copyto(stored)

    def _fetch(
        self, key: Any, target: NDArray, called: str, priority: int, text: Callable[[Part], Any] | None = None
    ) -> None:
        number, places = self._numbers[key], self._parts[key]

        def start(done: Any, values: Values) -> None:
            request = Request(number, called, Command.PULL, places, None, values, done, text)
            self._requests.ask([request], priority)

        push(start, "KVStore.pull", (), (target,), priority)

    def _push(
        self, given: Given, priority: int, outs: Mapping[Any, list[NDArray]] | None = None, keep: bool = True
    ) -> None:
        """As the base; small values of a list of keys are one operation, which begins when all gradients are there."""
        group: list[tuple[Any, NDArray, NDArray, NDArray]] = []
        size = 0
        for name, arrays in given:
            wanted = [] if outs is None else outs[name]
            stored = self._home(name, arrays, priority)
            if len(given) == 1 or not self._fits(name, stored, [*arrays, *wanted], len(wanted)):
                super()._push([(name, arrays)], priority, outs, keep)
                continue
            group.append((name, arrays[0], stored, wanted[0] if wanted else stored))
            size += stored.size * stored.dtype().itemsize
            if size >= PACKET:
                self._push_group(group, priority)
                group, size = [], 0
        self._push_group(group, priority)

    def _fits(self, key: Any, stored: NDArray, arrays: list[NDArray], wanted: int) -> bool:
        """Whether a value is small, and nothing is to be done but to exchange it for one gradient of main memory."""
        plain = not self._at_once and self._compression is None and self._hosts[key] is stored
        return (
            plain and len(arrays) == 1 + wanted <= 2 and len(self._parts[key]) == 1
            and small(stored.size, self._requests.step, stored.dtype().itemsize)
            and stored.size <= self._requests.step and all(alike(array, stored) for array in arrays)
        )  # fmt: skip

    def _push_group(self, group: list[tuple[Any, NDArray, NDArray, NDArray]], priority: int) -> None:
        """Pushes some keys, whose answers are written to the last of what is given of each."""
        if not group:
            return
        self._check()
        count, numbers = len(group), [self._numbers[key] for key, *_ in group]
        places = [self._parts[key] for key, *_ in group]
        names = [f"the push of key {key!r}" for key, *_ in group]
        turns = [self._next_push(key) for key, *_ in group]
        writes = [
            array for _, _, host, target in group for array in ((host,) if target is host else (host, target))
        ]
        targets = list(itertools.accumulate(1 if target is host else 2 for _, _, host, target in group))
        for key, _, host, target in group:
            (self._behind.discard if target is host else self._behind.add)(key)

        def start(done: Any, *values: Values) -> None:
            ended = together(count, done)
            requests = []
            for at, number in enumerate(numbers):
                sent, room = values[at], values[count + targets[at] - 1]
                if np.may_share_memory(sent, room):
                    sent = sent.copy()
                requests.append(
                    Request(number, names[at], Command.PUSH, places[at], sent, room, ended, push=turns[at])
                )
            self._requests.ask(requests, priority)

        push(start, "KVStore.push", [gradient for _, gradient, _, _ in group], writes, priority)

    def apply(self, key: Any, total: NDArray, stored: NDArray) -> None:
        """Sends the sum of this worker's devices to the servers, whose answer becomes the value."""
        host = self._hosts[key]
        self._exchange(key, total, host, host)
        if host is not stored:
            host.copyto(stored)
        self._behind.discard(key)

    def apply_and_pull(self, key: Any, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        """As `apply`; where one array of main memory is to be filled, the answer goes there and nowhere else."""
        if self._at_once:
            self.apply(key, total, stored)
            self._pull([(key, outs)], self.priority)
        elif len(outs) == 1 and alike(outs[0], stored):
            self._exchange(key, total, self._hosts[key], outs[0])
            self._behind.add(key)
        else:
            super().apply_and_pull(key, total, stored, outs)

    def _exchange(self, key: Any, total: NDArray, host: NDArray, target: NDArray) -> None:
        """Pushes, and has the answer written to `target`; the next push of the key waits for `host`."""
        self._check()
        number, places, priority = self._numbers[key], self._parts[key], self.priority
        called = f"the push of key {key!r}"
        turn, compression = 0 if self._at_once else self._next_push(key), self._compression
        if compression is not None and key not in self._residuals:
            self._residuals[key] = np.zeros(host.size, np.float32)

        def start(done: Any, values: Values, *results: Values) -> None:
            command = Command.PUSH_ONLY if self._at_once else Command.PUSH
            receive = None if self._at_once else results[-1]
            if receive is not None and np.may_share_memory(values, receive):
                values = values.copy()  # MPI may not write what it still sends
            request = Request(number, called, command, places, values, receive, done, push=turn)
            if compression is not None:
                request.compression, request.residual = compression, self._residuals[key]
            self._requests.ask([request], priority)

        writes = (host,) if target is host else (host, target)
        push(start, "KVStore.push", (in_main_memory(total),), writes, priority)

    def _next_push(self, key: Any) -> int:
        self._pushes[key] = self._pushes.get(key, 0) + 1
        return self._pushes[key]

    def _check_pushed(self, what: str, given: Any) -> None:
        super()._check_pushed(what, given)
        for key, _ in given:
            if self._at_once and self._updater is None:
                raise MXNetError(
                    f"[KVStore.{what}] key {key!r}: {self.type!r} applies each push at once; call set_optimizer first"
                )
            if self._compression is not None:
                check_compressed(key, self._values[key])

    def _rates_changed(self) -> bool:
        """Whether the servers have other rates than the optimizer, whose worker has to tell them: worker 0."""
        return self.rank == 0 and rates(self._optimizer) != self._rates

    def _tell_rates(self) -> None:
        """Tells the servers of rates that have changed, such as by `set_learning_rate`."""
        with self._agreeing:
            if self._rates_changed():
                found = rates(self._optimizer)
                self._settle()  # what was pushed before is updated with the rates of then
                self._command(Command.RATES, {"rates": found})
                self._rates = found

    def _pull(self, wanted: Given, priority: int) -> None:
        """As the base; what may have changed on the servers, or went to a caller alone, is asked for before."""
        for key, _ in wanted:
            if self._at_once or key in self._behind:
                self._refresh(key, priority)
                self._behind.discard(key)
        super()._pull(wanted, priority)

    def _refresh(self, key: Any, priority: int) -> None:
        """Has the servers send what they have of a key, which becomes the value."""
        self._check()
        stored = self._values[key]
        host = self._hosts[key]
        self._fetch(key, host, f"the pull of key {key!r}", priority)
        if host is not stored:
            host.copyto(stored)

    def _check(self) -> None:
        self._world.check_process()
        self._world.fault.check()

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Sends codes to the servers from now on, which sum what they stand for; the rest is sent later.

        Blocks until all workers have called it.

        Raises
        ------
        ProtocolError  another worker sets another one, or none before its next push of `dist_sync`
        """
        compression = Compression.of(compression_params)
        self._settle()  # what was pushed before is not compressed
        self._command(Command.COMPRESSION, {"type": compression.kind, "threshold": compression.threshold})
        how = f"{compression.kind} with threshold {compression.threshold}"
        self._meet("set_gradient_compression", (how,))
        self._compression = compression

    # ---- the optimizer ----

    def set_updater(self, updater: Any) -> None:
        """Refused: servers run optimizers, which they know by name."""
        raise MXNetError(
            "[KVStore.set_updater] servers get no functions; call set_optimizer, or start without servers"
        )

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Any) -> None:
        """Has the servers run a copy of an optimizer: its name and numbers. Blocks until all workers have called it.

        When `lr`, `wd` or `rescale_grad` of worker 0's optimizer has changed, its next push waits for those before and
        tells the servers.

        Raises
        ------
        ProtocolError  another worker has another optimizer, or other numbers in it
        ArgumentError  the servers know no such optimizer
        """
        told = describe(optimizer)
        self._meet("set_optimizer", of_optimizer(optimizer))  # what was pushed before is not updated
        if self.rank == 0:
            self._command(Command.OPTIMIZER, told)
        self._meet("set_optimizer")
        self._updater = _elsewhere
        self._optimizer, self._rates = optimizer, rates(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the states of all servers to a file, which is replaced at once or not at all. Blocks.

        Jobs with as many servers can load it.
        """
        self._need_optimizer("save_optimizer_states")
        self._settle()
        found = self._command(Command.SAVE, {"dump": dump_optimizer})
        head = json.dumps({"sizes": [len(each) for each in found]}).encode()
        with atomic_write(fname) as file:
            file.write(_MAGIC + head + b"\n" + b"".join(found))

    def load_optimizer_states(self, fname: str) -> None:
        """Takes what `save_optimizer_states` wrote. Blocks until all workers have called it.

        Raises
        ------
        FileFormatError, ArgumentError
            The file is damaged, or of another number of servers or another optimizer.
        """
        self._need_optimizer("load_optimizer_states")
        states = _split(bytes(read_bytes(fname)), fname, self._world.job.servers)
        self._meet("load_optimizer_states")
        if self.rank == 0:
            try:
                self._command(Command.LOAD, {}, states)
            except MXNetError as error:
                raise ArgumentError(f"{fname}: {error}") from error
        self._meet("load_optimizer_states")

    def profile_servers(self, command: str, arguments: Mapping[str, Any]) -> None:
        """Has each server call a function of its profiler, after what this worker has pushed. Blocks.

        `mx.profiler` does so with `profile_process="server"`, once it has the store by `set_kvstore_handle`.

        Raises
        ------
        MXNetError  a server cannot
        """
        self._settle()
        self._command(Command.PROFILE, {"command": command, "arguments": dict(arguments)})

    def _need_optimizer(self, caller: str) -> None:
        if self._updater is None:
            raise MXNetError(f"[KVStore.{caller}] no optimizer is set; call set_optimizer first")

    def _settle(self) -> None:
        """Waits until all that this worker has pushed is done."""
        with self._lock:
            hosts = list(self._hosts.values())
        for host in hosts:
            host.wait_to_read()
        if self._at_once:  # the last push has been sent, and perhaps not been applied
            self._command(Command.FLUSH, {})

    def _command(
        self, command: Command, text: dict[str, Any], datas: list[bytes] | None = None
    ) -> list[bytes]:
        """Sends a command about this store to every server; their answers."""
        self._check()
        told = {"store": self._number, **text}

        def run(comms: Any) -> list[bytes]:
            comm, found = comms[0], []
            for server in range(self._world.job.servers):
                to = self._world.job.workers + server
                data = None if datas is None else np.frombuffer(datas[server], np.uint8)
                pending = send(comm, to, HEAD, [encoded(Head(command), told, data)])
                error, answer = answered(
                    comm, to, lambda ready: self._requests.wait(ready, command.name.lower(), needs=())
                )
                for each in pending:
                    self._requests.wait(each.Test, command.name.lower(), needs=())
                if error:
                    raise MXNetError(f"[KVStore] server {server}: {error}")
                found.append(answer)
            return found

        result: list[bytes] = self._requests.do(command.name.lower(), run)
        return result


def _elsewhere(key: Any, total: NDArray, stored: NDArray) -> None:
    """The updater of a worker whose servers update."""
    raise MXNetError("[KVStore] the servers update")


def _split(data: bytes, fname: str, servers: int) -> list[bytes]:
    """The states of each server."""
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("another beginning")
        head, _, rest = data[len(_MAGIC) :].partition(b"\n")
        sizes = [int(size) for size in json.loads(head)["sizes"]]
        if min(sizes) < 0 or sum(sizes) != len(rest):
            raise ValueError("another length")
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{fname}: expected states that a store with servers has saved, found {error}"
        ) from error
    if len(sizes) != servers:
        raise ArgumentError(f"{fname}: has the states of {len(sizes)} servers, the job has {servers}")
    found, at = [], 0
    for size in sizes:
        found.append(rest[at : at + size])
        at += size
    return found
