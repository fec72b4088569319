# SPDX-License-Identifier: Apache-2.0
"""The contract of stores, those of plug-ins included: what `Module` and Gluon's `Trainer` call, and nothing else.

`mx_core.testing.KVStoreContract` tests it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn, TypeVar

from mx_core.errors import MXNetError

T = TypeVar("T", bound="type[KVStoreBase]")


class KVStoreBase(ABC):
    """Values by key, shared by the devices of a worker and by the workers.

    A store implements `broadcast`, `pushpull`, `type`, `rank` and `num_workers`, and `barrier` if it has several
    workers. `Module` and `Trainer` sum gradients by `sum` and update by themselves. A store that runs the
    optimizer where the values are says so by `is_capable` and implements `set_optimizer`, `save_optimizer_states` and
    `load_optimizer_states`, too. `init`, `push` and `pull` are for loops of a user's own; a store has all three or
    none. What a store does not implement is an `MXNetError` that names the store.

    Keys are all `int` or all `str`; wherever one key and its value may stand, a list of keys and a list of values may,
    too. The value of one key is an NDArray or a list of them, one per device of this worker, all of one shape and type.
    A key that is in a list twice counts as one with all arrays. `priority` orders pending work: higher goes first. It
    changes no result.

    Calls may return before the work is done; who reads an array waits for it. Calls of one key take effect in their
    order. Arrays of the caller may be changed as soon as a call returns: the store has read them, or has pushed its
    reading to the engine. A failure of the work is raised by the call or where an array that depends on it is read.

    What is wrong with the arguments (a key that is not there or there already, a shape or a type that differs) is an
    `MXNetError` that names the key, and then nothing is done for any key of the call.

    With several workers, all call the same methods with the same keys in the same order. `type` has `dist` in it then,
    and `async` if a push is applied without waiting for the other workers.

    Threads: one at a time, unless a store says otherwise. `KVStore` says any.
    """

    #: capability of a store that can run the optimizer
    OPTIMIZER: ClassVar[str] = "optimizer"
    #: classes a script registered, by lower-case name
    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    @staticmethod
    def register(store: T) -> T:
        """Makes a class known to `create` under its lower-case name; usable as a decorator.

        A distribution registers by the hook `mx_register_kvstores` instead.
        """
        KVStoreBase.kv_registry[store.__name__.lower()] = store
        return store

    # ---- what every store has ----

    @abstractmethod
    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Initialises keys and copies the values to every array of `out`.

        `value` has one array per key. With several workers all get the value of rank 0.
        """

    @abstractmethod
    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sums `value` over devices and workers and copies the result to `out` (or `value`).

        With an optimizer set, it is given the sum as gradient, and the new value is what is copied. Arrays of
        `value` that are not in `out` stay as they are.
        """

    def sum(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """As `pushpull`, but nobody pulls the result: a store may leave its own value as it is, and writes less.

        It is for gradients whose optimizer does not run in the store. What the value is afterwards is not defined. All
        workers call the same one of both.
        """
        self.pushpull(key, value, out=out, priority=priority)

    @property
    @abstractmethod
    def type(self) -> str:
        """The name the store was created with."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """This worker's number, from 0."""

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """How many workers share the store."""

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store has a capability, such as `KVStoreBase.OPTIMIZER`."""
        return False

    def barrier(self) -> None:
        """Blocks until every worker has called it."""
        if self.num_workers > 1:
            self._refuse("barrier", f"wait for its {self.num_workers} workers")

    def _barrier(self) -> None:
        """`barrier`, as MXNet names it."""
        self.barrier()

    # ---- what a store may have ----

    def set_optimizer(self, optimizer: Any) -> None:
        """Lets the store update its values with `optimizer` at each push; keys may get values before or after.

        A store of several processes may take a copy of the optimizer, so that later changes of its attributes do not
        count.

        Parameters
        ----------
        optimizer : Optimizer
            Anything from which `mx_kvstore.updater.updater_for` makes what to call with (key, sum, value).
        """
        self._refuse("set_optimizer", "run optimizers; update outside of it")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states, those of all workers and servers, to a file; atomically. Blocks."""
        self._refuse("save_optimizer_states", "keep states of an optimizer")

    def load_optimizer_states(self, fname: str) -> None:
        """Takes the optimizer's states from a file. Errors name the file."""
        self._refuse("load_optimizer_states", "keep states of an optimizer")

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Compresses gradients that are pushed from now on.

        Parameters
        ----------
        compression_params : mapping
            `type`, `"2bit"` or `"1bit"`, and `threshold`.
        """
        self._refuse("set_gradient_compression", f"compress gradients, got {compression_params!r}")

    def init(self, key: Any, value: Any) -> None:
        """Initialises keys: `broadcast` without arrays to fill."""
        self._refuse("init", "separate init from pull; call broadcast")

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """The first half of `pushpull`."""
        self._refuse("push", "separate push from pull; call pushpull")

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copies values to every array of `out`, after everything this worker has pushed before."""
        self._refuse("pull", "separate push from pull; call pushpull")

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Refused for values that are dense, as all are here."""
        raise MXNetError(
            f"[KVStore.row_sparse_pull] key {key!r}: {self.type!r} keeps dense values only; use pull"
        )

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Refused: a store knows its commands. `mx.profiler` profiles servers of a store with `profile_servers`."""
        self._refuse("_send_command_to_servers", f"take commands, got {head!r}")

    def _refuse(self, what: str, does_not: str) -> NoReturn:
        raise MXNetError(f"[KVStore.{what}] {self.type!r} does not {does_not}")
