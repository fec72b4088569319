# SPDX-License-Identifier: Apache-2.0
"""The contract of stores, those of plug-ins included: what `Module` calls, and nothing else.

`mx_core.testing.KVStoreContract` tests it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

from mx_core.errors import MXNetError

T = TypeVar("T", bound="type[KVStoreBase]")


class KVStoreBase(ABC):
    """Values by key, shared by the devices of a worker and by the workers.

    A store implements `broadcast`, `pushpull`, `type`, `rank` and `num_workers`. One that runs the optimizer
    where the values are says so by `is_capable` and implements `set_optimizer`, `save_optimizer_states` and
    `load_optimizer_states`, too; with any other `Module` sums gradients by `pushpull` and updates by itself.

    Keys are all `int` or all `str`; wherever one key and its value may stand, a list of keys and a
    list of values may, too. `priority` orders pending work: higher goes first. What is wrong with the
    arguments (a key that is not there or there already, a shape that differs) is an `MXNetError` that names the key.

    Threads: one at a time, unless a store says otherwise.
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

    @abstractmethod
    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Initialises keys and copies the values to every array of `out`.

        With several workers all get the value of rank 0.
        """

    @abstractmethod
    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sums `value` over devices and workers and copies the result to `out` (or `value`).

        With an optimizer set, it is given the sum as gradient, and the new value is what is copied. Arrays of
        `value` that are not in `out` stay as they are.
        """

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store has a capability, such as `KVStoreBase.OPTIMIZER`."""
        return False

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

    def set_optimizer(self, optimizer: Any) -> None:
        """Lets the store update its values with `optimizer` at each push.

        Parameters
        ----------
        optimizer : Optimizer
            Anything from which `mx_kvstore.updater.updater_for` makes what to call with (key, sum, value).
        """
        raise MXNetError(f"[KVStore] {self.type!r} does not run optimizers; update outside of it")

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Compresses what is sent to other workers from now on."""
        raise MXNetError(f"[KVStore] {self.type!r} does not compress gradients, got {compression_params!r}")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states to a file."""
        raise MXNetError(f"[KVStore] {self.type!r} has no optimizer states to save")

    def load_optimizer_states(self, fname: str) -> None:
        """Reads the optimizer's states from a file."""
        raise MXNetError(f"[KVStore] {self.type!r} has no optimizer states to load")
