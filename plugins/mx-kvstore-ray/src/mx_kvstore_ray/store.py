# SPDX-License-Identifier: Apache-2.0
"""The stores of workers: values and the optimizer are on servers that Ray runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import atomic_write, read_bytes
from mx_kvstore import KVStore
from mx_kvstore.arrays import Values, check_compressed, host_of, in_main_memory, push
from mx_kvstore.compression import Compression
from mx_kvstore.keys import Given
from mx_kvstore.reduction import sum_into
from mx_kvstore_ray import settings, world
from mx_kvstore_ray.described import describe, rates
from mx_kvstore_ray.parts import Part, parts
from mx_kvstore_ray.requests import Request
from mx_ndarray import NDArray

#: what a file of states of several servers begins with
_MAGIC = b"mx-kvstore-ray states 1\n"


def make(name: str) -> RayStore:
    """The store of a name.

    Raises
    ------
    NoJobError  the process was started by no launcher
    MXNetError  the job has failed
    """
    return RayStore(name, world.join())


class RayStore(KVStore):
    """Pushes gradients to servers, which sum them or apply each at once, and takes values from them.

    With `async` in its name, a push is applied at once, and a pull gives what the servers have then. Otherwise the
    servers wait for the pushes of all workers, and the new value comes back with the push.

    A worker that is started anew makes the same calls again: what the servers have counted they do not count again, and
    they answer with what they hold now. `resume` leads straight to where they are.

    Parameters
    ----------
    name : str
        `dist_sync`, `dist_async` or one of these with `device`.
    joined : World

    Threads: as those of `mx_kvstore.KVStore`; without `async`, all workers make the same calls in the same order.
    """

    def __init__(self, name: str, joined: world.World) -> None:
        super().__init__(name)
        self._world = joined
        self._at_once = "async" in name
        self._parts: dict[Any, list[Part]] = {}
        #: values in main memory, or room for those that are on a device: of a key always the same, by which the engine
        #: orders its pushes and pulls
        self._hosts: dict[Any, NDArray] = {}
        self._pushes: dict[Any, int] = {}
        self._number = joined.new_store()
        self._begin = 0
        self._optimizers = self._loads = 0
        self._optimizer: Any = None
        self._compression: Compression | None = None
        self._residuals: dict[Any, Values] = {}

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._world.place.rank

    @property
    def num_workers(self) -> int:
        """How many workers the job began with."""
        return self._world.place.workers

    @property
    def restarts(self) -> int:
        """How often this worker was started before."""
        return self._world.place.start

    def __repr__(self) -> str:
        place = self._world.place
        return (
            f"<KVStore {self.type!r}, worker {place.rank} of {place.workers}, {place.servers} servers on Ray>"
        )

    def barrier(self) -> None:
        """Blocks until every worker has called it and what this one pushed before is done.

        Raises
        ------
        PeerLostError, PeerTimeoutError  a worker is lost, or did not come in time
        ProtocolError                    another worker has other keys
        """
        self._settle()
        self._world.meet("barrier")

    def resume(self) -> int:
        """The number of pushes of every key that the servers have counted; this worker's next push is the one after.

        Call it once, when all keys have their first values, and go on with that step. Of a worker that was not started
        before, or of a job without earlier checkpoints, it is 0.
        """
        self._settle()
        found = self._world.requests.command("rounds", {"store": self._number})
        counted = [rounds for told, _ in found for rounds in told["rounds"]]
        with self._lock:
            self._begin = min(counted, default=0)
            self._pushes.update(dict.fromkeys(self._pushes, self._begin))
        self._world.skip_barriers(found[0][0]["met"])
        return self._begin

    # ---- values ----

    def first_value(self, key: Any, stored: NDArray) -> None:
        """Worker 0 gives the servers its value; all take theirs."""
        self._world.check()
        place = len(self._parts)  # in this store, so that a later job finds its states on the same server
        servers = self._world.place.servers
        places = self._parts[key] = parts(place, stored.size, servers, settings.big_array_bound())
        self._pushes[key] = self._begin
        host = self._hosts[key] = host_of(stored)
        self._world.new_key(key)
        code, priority = stored._dtype_code, self.priority
        if host is not stored:
            stored.copyto(host)

        def told(part: Part) -> dict[str, Any]:
            shape = list(stored.shape) if len(places) == 1 else [part.end - part.begin]
            return {
                "store": self._number,
                "key": key,
                "shape": shape,
                "code": code,
                "whole": list(stored.shape),
            }

        def give(done: Any, values: Values) -> None:
            given = values if self.rank == 0 else None
            command = "init" if self.rank == 0 else "pull"
            called = f"the first value of key {key!r}"
            request = Request(command, called, places, told, done, given, [values])
            self._world.requests.ask(request, priority)

        push(give, "KVStore.init", (), (host,), priority)
        if host is not stored:
            host.copyto(stored)

    def apply(self, key: Any, total: NDArray, stored: NDArray) -> None:
        """Sends the sum of this worker's devices to the servers."""
        self._exchange(key, total, stored, [])

    def apply_and_pull(self, key: Any, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        """As `apply`; the answer goes to `outs`, too."""
        if self._at_once:
            self.apply(key, total, stored)
            self._pull([(key, outs)], self.priority)
            return
        near: list[NDArray] = []
        others: list[NDArray] = []
        for out in outs:
            (near if _in_host(stored) and _in_host(out) and out.dtype is stored.dtype else others).append(out)
        self._exchange(key, total, stored, near)
        if others:
            sum_into([stored], others, self.priority)

    def _exchange(self, key: Any, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        self._world.check()
        self._pushes[key] += 1
        self._world.count_push(self._number, key, self._pushes[key])
        host, priority, compression = self._hosts[key], self.priority, self._compression
        if compression is not None and key not in self._residuals:
            self._residuals[key] = np.zeros(stored.size, np.float32)
        stamped = {
            "store": self._number, "key": key, "n": self._pushes[key], "rates": rates(self._optimizer),
            "how": None if compression is None else [compression.kind, compression.threshold],
            "keys": self._world.keys,
        }  # fmt: skip
        command = "push at once" if self._at_once else "push"
        called, places = f"push {self._pushes[key]} of key {key!r}", self._parts[key]

        def start(done: Any, values: Values, *results: Values) -> None:
            receive = () if self._at_once else results
            request = Request(command, called, places, lambda part: stamped, done, values, receive)
            if compression is not None:
                request.compression, request.residual = compression, self._residuals[key]
            self._world.requests.ask(request, priority)

        push(start, "KVStore.push", (in_main_memory(total),), (host, *outs), priority)
        if host is not stored:
            host.copyto(stored)

    def _check_pushed(self, what: str, given: Any) -> None:
        super()._check_pushed(what, given)
        self._world.check()
        self._world.tell_keys()
        for key, _ in given:
            if self._at_once and self._optimizer is None:
                raise MXNetError(
                    f"[KVStore.{what}] key {key!r}: {self.type!r} applies each push at once; call set_optimizer first"
                )
            if self._compression is not None:
                check_compressed(key, self._values[key])

    def _pull(self, wanted: Given, priority: int) -> None:
        """As the base; with `async`, what others may have pushed meanwhile is asked for before."""
        self._world.check()
        self._world.tell_keys()
        if self._at_once:
            for key, _ in wanted:
                self._refresh(key, priority)
        super()._pull(wanted, priority)

    def _refresh(self, key: Any, priority: int) -> None:
        self._world.check()
        stored, places = self._values[key], self._parts[key]
        host = self._hosts[key]
        asked = {"store": self._number, "key": key}

        def start(done: Any, values: Values) -> None:
            request = Request(
                "pull", f"the pull of key {key!r}", places, lambda part: asked, done, None, [values]
            )
            self._world.requests.ask(request, priority)

        push(start, "KVStore.pull", (), (host,), priority)
        if host is not stored:
            host.copyto(stored)

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Sends codes to the servers from now on, which sum what they stand for; the rest is sent later.

        All workers must have the same compression when they push, which the servers compare.

        Parameters
        ----------
        compression_params : mapping
            `type`, `"2bit"` or `"1bit"`, and `threshold`; see `mx_kvstore.compression.Compression`.
        """
        self._compression = Compression.of(compression_params)

    # ---- the optimizer ----

    def set_updater(self, updater: Any) -> None:
        """Refused: servers run optimizers, which they know by name."""
        raise MXNetError("[KVStore.set_updater] servers get no functions; call set_optimizer")

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Any) -> None:
        """Has the servers run a copy of an optimizer: its name and numbers. Blocks.

        When the `lr`, `wd` or `rescale_grad` of a worker's own changes, its next push tells the servers; in a round
        those of the lowest rank count.

        Raises
        ------
        ProtocolError  another worker has set another optimizer, or other numbers in it
        ArgumentError  the servers know no such optimizer
        """
        told = describe(optimizer)
        self._settle()  # what was pushed before is not updated
        self._optimizers += 1
        what = {"store": self._number, "n": self._optimizers, "optimizer": told}
        self._world.requests.command("optimizer", what)  # that of worker 0 is used, the others are compared
        self._updater = _elsewhere
        self._optimizer = optimizer

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the states of all servers to a file, which is replaced at once or not at all. Blocks.

        Jobs with as many servers can load it.
        """
        self._need_optimizer("save_optimizer_states")
        self._settle()
        asked = {"store": self._number, "dump": bool(dump_optimizer)}
        found = [bytes(data) for _, data in self._world.requests.command("save", asked)]
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
        states = _split(bytes(read_bytes(fname)), fname, self._world.place.servers)
        self._settle()
        self._loads += 1
        self._world.meet("load_optimizer_states")
        if self.rank == 0:
            datas = [np.frombuffer(each, np.uint8) for each in states]
            try:
                self._world.requests.command("load", {"store": self._number, "n": self._loads}, datas)
            except ArgumentError as error:
                raise ArgumentError(f"{fname}: {error}") from error
        self._world.meet("load_optimizer_states")

    def profile_servers(self, command: str, arguments: Mapping[str, Any]) -> None:
        """Has each server call a function of its profiler, after what this worker has pushed. Blocks.

        `mx.profiler` does so with `profile_process="server"`, once it has the store by `set_kvstore_handle`. A server
        that comes back after a loss does not profile.

        Raises
        ------
        MXNetError  a server cannot
        """
        self._settle()
        self._world.requests.command("profile", {"command": command, "arguments": dict(arguments)})

    def _need_optimizer(self, caller: str) -> None:
        if self._optimizer is None:
            raise MXNetError(f"[KVStore.{caller}] no optimizer is set; call set_optimizer first")

    def _settle(self) -> None:
        """Waits until all that this worker has pushed is done."""
        self._world.check()
        self._world.tell_keys()  # before the first value of one that other workers do not have is waited for
        with self._lock:
            values = list(self._values.values())
        for value in values:
            value.wait_to_read()


def _split(data: bytes, fname: str, servers: int) -> list[bytes]:
    """The states of each server out of those of all."""
    head, _, rest = data.removeprefix(_MAGIC).partition(b"\n")
    try:
        sizes = [int(size) for size in json.loads(head)["sizes"]] if data.startswith(_MAGIC) else None
    except (ValueError, KeyError, TypeError):
        sizes = None
    if sizes is None or min(sizes, default=0) < 0 or sum(sizes) != len(rest):
        raise FileFormatError(f"{fname}: expected states that save_optimizer_states of servers on Ray wrote")
    if len(sizes) != servers:
        raise ArgumentError(
            f"{fname}: the states are of {len(sizes)} servers, and the job has {servers}; start it with "
            f"-s {len(sizes)}"
        )
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [rest[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _in_host(array: NDArray) -> bool:
    return array.context.device_type.startswith("cpu")


def _elsewhere(key: Any, total: NDArray, stored: NDArray) -> None:
    """The updater of a worker whose servers update."""
    raise MXNetError("[KVStore] the servers update")
