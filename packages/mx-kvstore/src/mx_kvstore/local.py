# SPDX-License-Identifier: Apache-2.0
"""The stores of one process: `local` sums in main memory, `device` on the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from mx_core.context import Context, cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.files import atomic_write
from mx_core.forks import ForkSafeLock
from mx_kvstore.compression import Compression
from mx_kvstore.contract import KVStoreBase
from mx_kvstore.keys import Given, Key, as_priority, pairs
from mx_kvstore.reduction import Compressor, Placement, moved, reduced, sum_into
from mx_kvstore.updater import Updater, load_states, updater_for
from mx_ndarray import NDArray, autograd, invoke_capsule, nd
from mx_ndarray import priority as scheduled


class KVStore(KVStoreBase):
    """Parameters shared by the devices of one process.

    Every method only pushes work to the engine and returns: a failure of the work, an updater's
    included, surfaces where an array that depends on it is read. Threads: any; pushes of one key
    are applied in the order in which they were made.

    A store of several processes may derive from it: it overrides `type`, `rank`, `num_workers`, `barrier`,
    `first_value` and `apply`. Keys, lists, checks, the sum over devices and updaters stay as they are here.

    Parameters
    ----------
    name : str
        `"local"`: sums and updates run on `cpu(0)`, or wherever in main memory the value was
        initialised. `"device"`: on one of the devices the pushed arrays lie on, chosen per key so
        that devices have equal shares.
    """

    def __init__(self, name: str = "local") -> None:
        self._name = name
        self._on_device = "device" in name
        self._values: dict[Key, NDArray] = {}
        self._placed: dict[Key, Context] = {}
        self._placement = Placement()
        self._updater: Updater | None = None
        self._compressor: Compressor | None = None
        self._collectives: Any = None
        #: of the call that is being served, under the lock
        self._priority = 0
        self._lock = ForkSafeLock()

    @property
    def type(self) -> str:
        """The name the store was created with."""
        return self._name

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True for `KVStoreBase.OPTIMIZER`."""
        return capability.lower() == KVStoreBase.OPTIMIZER

    def __repr__(self) -> str:
        return f"<KVStore {self._name!r}, {len(self._values)} keys>"

    # ---- for stores of several processes ----

    def first_value(self, key: Key, stored: NDArray) -> None:
        """Called once per key, in the order of the calls: gives all workers the `stored` of rank 0; asynchronous.

        It is called under the store's lock, with the priority of the call.
        """

    def apply(self, key: Key, total: NDArray, stored: NDArray) -> None:
        """Called once per key of a push, in the order of the calls: changes `stored`; asynchronous.

        Here it gives `total` to the updater, or copies it. A store of several processes sums over workers first. It is
        called under the store's lock, with the priority of the call.

        Parameters
        ----------
        key : int or str
        total : NDArray
            The sum over this process's devices, where `stored` lies. It is read only, and may be an array of the user.
        stored : NDArray
            The value, which `pull` copies.
        """
        if self._updater is None:
            sum_into([total], [stored], self._priority)
        else:
            self._updater(key, total, stored)

    def apply_and_pull(self, key: Key, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        """As `apply`, then copies the value to `outs`. A store may do both at once; `total` may be one of them."""
        self.apply(key, total, stored)
        self._spread(stored, outs, self._priority)

    # ---- for packages of devices ----

    def use_collectives(self, name: str, make: Callable[[Any], Any]) -> None:
        """Makes a `device` store another one, called `name`, whose sums and copies over devices are a library's.

        Parameters
        ----------
        name : str
            What `type` says from now on.
        make : callable
            From the capsule of arrays, `mx.invoke.v1`, to an object with `reduce(arrays, target, priority)` and
            `broadcast(source, targets, priority)`. They push one operation and return True, or return False for arrays
            that they do not serve, which are then moved by copies. An operation reads all arrays before it writes one.
        """
        self._name, self._on_device = name, True
        self._collectives = make(invoke_capsule())

    @property
    def priority(self) -> int:
        """Of the call that is being served, for `first_value` and `apply`."""
        return self._priority

    # ---- calls ----

    def init(self, key: Any, value: Any) -> None:
        """Gives keys their first values, which are copied.

        Parameters
        ----------
        key : int, str or list of them
        value : NDArray, or list of one per key

        Raises
        ------
        ArgumentError
            A key has a value already, or its kind is not that of the other keys. No key is
            initialised then.
        """
        given = pairs(key, value, "value")
        with self._lock:
            self._check_new("init", given)
            self._start(given, 0)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sums the arrays of each key and gives the sum to the updater, or stores it if there is none.

        Parameters
        ----------
        key : int, str or list of them
        value : NDArray or list of NDArrays of the stored shape and type, one per device; for a list
            of keys a list of these. They are read only.
        priority : int
            Of work that is ready, larger ones start first.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            The key was not initialised, or an array does not fit it. Nothing is pushed then.
        """
        given, priority = pairs(key, value, "value"), as_priority(priority)
        with self._lock:
            self._check_pushed("push", given)
            self._push(given, priority)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copies values to arrays, after everything that was pushed before.

        Parameters
        ----------
        key : int, str or list of them
        out : NDArray or list of NDArrays of the stored shape; for a list of keys a list of these
        priority : int
            Of work that is ready, larger ones start first.
        ignore_sparse : bool
            No value is sparse here.
        """
        if out is None:
            raise ArgumentError("[KVStore.pull] out: expected the NDArrays to fill, got None")
        given, priority = pairs(key, out, "out"), as_priority(priority)
        with self._lock:
            self._check_pulled("pull", given)
            self._pull(given, priority)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` to `out`, or to `value` itself without one; no other push comes between."""
        given, priority = pairs(key, value, "value"), as_priority(priority)
        wanted = given if out is None else pairs(key, out, "out")
        with self._lock:
            self._check_pushed("pushpull", given)
            self._check_pulled("pushpull", wanted)
            self._push(given, priority, dict(wanted))

    def sum(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """As the contract says. Where nothing but sums is asked for, they are written to `out` and nowhere else."""
        given, priority = pairs(key, value, "value"), as_priority(priority)
        wanted = given if out is None else pairs(key, out, "out")
        with self._lock:
            self._check_pushed("sum", given)
            self._check_pulled("sum", wanted)
            self._push(given, priority, dict(wanted), keep=False)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`."""
        given, wanted, priority = pairs(key, value, "value"), pairs(key, out, "out"), as_priority(priority)
        with self._lock:
            self._check_new("broadcast", given)
            firsts = {name: arrays[0] for name, arrays in given}
            self._check_pulled("broadcast", wanted, firsts)
            self._start(given, priority)
            self._pull(wanted, priority)

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Sums what is sent of gradients from now on, as if devices sent codes; what is not sent now is sent later.

        It is for `device` stores, as in MXNet: there each array of a push has a residual of its own.

        Parameters
        ----------
        compression_params : mapping
            `type`, `"2bit"` or `"1bit"`, and `threshold`; see `mx_kvstore.compression.Compression`.

        Raises
        ------
        MXNetError
            The store is a `local` one, or a parameter is wrong.
        """
        made = Compression.of(compression_params)
        if not self._compresses():
            raise MXNetError(
                "[KVStore.set_gradient_compression] gradient compression is not supported for kvstore "
                f"{self._name!r}, got {compression_params!r}; use a device store or one of several processes"
            )
        with self._lock:
            if self._compressor is None or self._compressor.compression != made:
                self._compressor = Compressor(made)

    def _compresses(self) -> bool:
        return self._on_device and self._collectives is None

    def set_updater(self, updater: Updater) -> None:
        """Calls `updater(key, sum of the pushed arrays, stored value)` at each push from now on.

        It changes the stored value in place and must leave the sum alone, which may be the pushed
        array itself.
        """
        if not callable(updater):
            raise ArgumentError(f"[KVStore.set_updater] expected a callable, got {updater!r}")
        self._updater = updater

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Any) -> None:
        """Updates values with `optimizer` at each push; its states live here.

        Raises
        ------
        ArgumentError
            It is not an optimizer.
        """
        self._updater = updater_for(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the updater's states to a file, which is replaced at once or not at all.

        Raises
        ------
        MXNetError
            There is no updater, or it has no states to give.
        """
        states = self._method("save_optimizer_states", "get_states")(dump_optimizer)
        with atomic_write(fname) as file:
            file.write(states)

    def load_optimizer_states(self, fname: str) -> None:
        """Reads what `save_optimizer_states` wrote; raises as it does.

        Raises
        ------
        FileFormatError, ArgumentError
            The file is damaged, or its states are of another optimizer; the message names the file.
        """
        load_states(self._method("load_optimizer_states", "set_states"), fname)

    def _method(self, caller: str, name: str) -> Any:
        if self._updater is None:
            raise MXNetError(f"[KVStore.{caller}] no optimizer is set; call set_optimizer first")
        method = getattr(self._updater, name, None)
        if method is None:
            kind = type(self._updater).__name__
            raise MXNetError(f"[KVStore.{caller}] the updater, a {kind}, has no {name}")
        return method

    # ---- steps of calls, under the lock ----

    @contextmanager
    def _served(self, priority: int) -> Iterator[None]:
        """Around what users and subclasses write: their operations have the priority and are not recorded."""
        with autograd.pause(), scheduled(priority):
            before, self._priority = self._priority, priority
            try:
                yield
            finally:
                self._priority = before

    def _start(self, given: Given, priority: int) -> None:
        with self._served(priority):
            for name, (array,) in given:
                where = array.context
                keep = self._on_device or where.device_type == "cpu"
                self._values[name] = array.copy() if keep else array.as_in_context(cpu())
                self.first_value(name, self._values[name])

    def _push(
        self, given: Given, priority: int, outs: Mapping[Key, list[NDArray]] | None = None, keep: bool = True
    ) -> None:
        """Pushes, and pulls to `outs` in the same operation where nothing comes between.

        Without `keep` nobody pulls later, so that the value may stay as it is.
        """
        plain = (
            self._updater is None and self._compressor is None and self._collectives is None
            and type(self).apply is KVStore.apply
        )  # fmt: skip
        for name, arrays in given:
            wanted = [] if outs is None else outs[name]
            if plain and not keep:
                sum_into(arrays, wanted, priority)
                continue
            stored = self._home(name, arrays, priority)
            if plain:
                sum_into(arrays, [stored, *wanted], priority)
                continue
            total = self._total(name, arrays, stored.context, priority)
            with self._served(priority):
                if wanted:
                    self.apply_and_pull(name, total, stored, wanted)
                else:
                    self.apply(name, total, stored)

    def _total(self, name: Key, arrays: list[NDArray], context: Context, priority: int) -> NDArray:
        """The sum over this process's devices: what `apply` gets."""
        if self._compressor is not None:
            return self._compressor.reduced(name, arrays, context, priority)
        if self._collectives is not None and len(arrays) > 1:
            total = nd.empty(arrays[0].shape, ctx=context, dtype=arrays[0].dtype)
            if self._collectives.reduce(arrays, total, priority):
                return total
        return reduced(arrays, context, priority)

    def _pull(self, wanted: Given, priority: int) -> None:
        for name, arrays in wanted:
            self._spread(self._values[name], arrays, priority)

    def _spread(self, stored: NDArray, outs: list[NDArray], priority: int) -> None:
        """Copies a value to arrays."""
        if self._collectives is None or not self._collectives.broadcast(stored, outs, priority):
            sum_into([stored], outs, priority)

    def _home(self, name: Key, arrays: list[NDArray], priority: int) -> NDArray:
        """The stored value; a `device` store moves it to its device at the first push."""
        stored = self._values[name]
        if self._on_device and name not in self._placed:
            self._placed[name] = self._placement.choose(arrays)
            self._values[name] = stored = moved(stored, self._placed[name], priority)
        return stored

    # ---- checks ----

    def _check_kind(self, name: Key) -> None:
        for other in self._values:
            if type(other) is not type(name):
                raise ArgumentError(f"[KVStore] Mixed key types are not allowed: {name!r} and {other!r}")
            return

    def _check_new(self, what: str, given: Given) -> None:
        for name, arrays in given:
            self._check_kind(name)
            if name in self._values:
                raise ArgumentError(f"[KVStore.{what}] duplicate init of key {name!r}")
            if len(arrays) != 1:
                raise ArgumentError(f"[KVStore.{what}] key {name!r}: expected one value, got {len(arrays)}")

    def _check_pushed(self, what: str, given: Given) -> None:
        for name, arrays in given:
            stored = self._known(what, name)
            for array in arrays:
                _check_shape(what, name, stored, array)
                if self._compressor is not None and stored.dtype is not np.float32:
                    raise DTypeError(
                        f"[KVStore.{what}] key {name!r}: gradients of float32 are compressed, got "
                        f"{stored.dtype.__name__}"
                    )
                if array.dtype != stored.dtype:
                    raise DTypeError(
                        f"[KVStore.{what}] key {name!r}: expected {stored.dtype.__name__}, "
                        f"got {array.dtype.__name__}"
                    )

    def _check_pulled(self, what: str, wanted: Given, firsts: Mapping[Key, NDArray] | None = None) -> None:
        for name, arrays in wanted:
            stored = self._known(what, name) if firsts is None else firsts[name]
            for array in arrays:
                _check_shape(what, name, stored, array)
                if not array.writable:
                    raise ArgumentError(
                        f"[KVStore.{what}] key {name!r}: out is read-only; pass an array that owns its memory"
                    )

    def _known(self, what: str, name: Key) -> NDArray:
        stored = self._values.get(name)
        if stored is None:
            self._check_kind(name)
            raise ArgumentError(f"[KVStore.{what}] key {name!r} doesn't exist. Did you init?")
        return stored


def _check_shape(what: str, name: Key, stored: NDArray, array: NDArray) -> None:
    if array.shape != stored.shape:
        raise ShapeError(f"[KVStore.{what}] key {name!r}: expected shape {stored.shape}, got {array.shape}")
