# SPDX-License-Identifier: Apache-2.0
"""The store of workers without servers: each has all values, and sums of gradients are exchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mx_core import dtypes
from mx_core.context import cpu
from mx_kvstore import KVStore
from mx_kvstore.arrays import beside, check_compressed, in_main_memory
from mx_kvstore.compression import Compression
from mx_kvstore.exchange import text_of
from mx_kvstore.keys import Given, Key
from mx_kvstore.reduction import alike
from mx_kvstore_mpi import world
from mx_kvstore_mpi.agreement import (
    Told,
    check_draws_nothing,
    digest,
    of_keys,
    of_optimizer,
    of_rates,
    of_states,
)
from mx_kvstore_mpi.rounds import Rounds
from mx_ndarray import NDArray, nd


class SyncStore(KVStore):
    """Sums over devices and workers. An optimizer runs on every worker, which has the same sums, hence the same values.

    Methods return at once; sums are made by a thread of communication while the program goes on. What fails, such as a
    worker that is lost, is raised where an array that depends on it is read, and by every later call.

    Parameters
    ----------
    name : str
        `dist_sync` or `dist_device_sync`.
    joined : World
        Of a worker.

    Threads: as those of `mx_kvstore.KVStore`; all workers must make the same calls in the same order.
    """

    def __init__(self, name: str, joined: world.World) -> None:
        super().__init__(name)
        self._world = joined
        self._rounds: Rounds = joined.exchange
        self._numbers: dict[Any, int] = {}
        self._sums: dict[Any, NDArray] = {}
        self._compression: Compression | None = None
        self._residuals: dict[Any, NDArray] = {}
        #: what was told of the last push of a key, and with which settings
        self._tellings: dict[Any, tuple[tuple[str, Compression | None, Told, int], tuple[str, int]]] = {}
        #: what the call that is being served is called, under the lock
        self._doing = "push"

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._world.rank

    @property
    def num_workers(self) -> int:
        """How many workers the job has."""
        return self._world.job.workers

    def __repr__(self) -> str:
        return f"<KVStore {self.type!r}, worker {self.rank} of {self.num_workers}, {len(self._values)} keys>"

    def barrier(self) -> None:
        """Blocks until every worker has called it.

        Raises
        ------
        PeerLostError, PeerTimeoutError  a worker is lost, or did not come in time
        """
        self._world.check_process()
        self._rounds.do("barrier", lambda comm: None)

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Exchanges codes from now on: sums what they stand for; the rest is sent later.

        All workers must have the same compression when they push, which is compared then.

        Parameters
        ----------
        compression_params : mapping
            `type`, `"2bit"` or `"1bit"`, and `threshold`; see `mx_kvstore.compression.Compression`.
        """
        self._compression = Compression.of(compression_params)

    def set_optimizer(self, optimizer: Any) -> None:
        """Updates values with `optimizer` at each push, on every worker. Blocks until all workers have called it.

        Raises
        ------
        ProtocolError
            Another worker has another optimizer, or other numbers in it: values would drift apart.
        ArgumentError
            It is not an optimizer, or draws random numbers: only a server draws the same for all workers.
        """
        self._check()
        check_draws_nothing(optimizer, self.num_workers)
        before = self._updater
        super().set_optimizer(optimizer)
        try:
            self._rounds.do("set_optimizer", lambda comm: None, of_optimizer(optimizer))
        except BaseException:
            self._updater = before
            raise

    def load_optimizer_states(self, fname: str) -> None:
        """Takes what `save_optimizer_states` wrote. Blocks until all workers have called it.

        Raises
        ------
        ProtocolError
            Another worker loads other states: values would drift apart.
        FileFormatError, ArgumentError
            The file is damaged, or its states are of another optimizer; the message names the file.
        """
        self._check()
        super().load_optimizer_states(fname)
        self._rounds.do("load_optimizer_states", lambda comm: None, of_states(self._updater))

    def first_value(self, key: Any, stored: NDArray) -> None:
        """Takes the value of worker 0."""
        self._check()
        number = self._numbers[key] = self._rounds.new_key(key)
        host = in_main_memory(stored)
        told = (f"the first value of key {key!r}", *_form(stored))
        self._rounds.first(number, told, host, self.priority)
        if host is not stored:
            host.copyto(stored)

    def _push(
        self, given: Given, priority: int, outs: Mapping[Key, list[NDArray]] | None = None, keep: bool = True
    ) -> None:
        """As the base, but a sum that needs no other operation than its own is pushed with nothing around it."""
        self._doing = "push" if keep else "sum"
        for name, arrays in given:
            wanted = [] if outs is None else outs[name]
            stored = self._home(name, arrays, priority)
            plain = self._updater is None and self._compression is None and len(arrays) == 1
            if plain and all(alike(array, stored) for array in (arrays[0], *wanted)):
                self._check()
                kept = [self._target(name, stored)] if keep else []
                told, targets = self._told(name, stored), (*kept, *wanted)
                self._rounds.sum(self._numbers[name], told, arrays[0], targets, priority)
            else:
                super()._push([(name, arrays)], priority, outs, keep)

    def apply(self, key: Any, total: NDArray, stored: NDArray) -> None:
        """Sums over workers, then updates or replaces the value."""
        self._sum(key, total, stored, [])

    def apply_and_pull(self, key: Any, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        """As `apply`, then copies the value to `outs`; where it is the sum, all of them are written at once."""
        if self._updater is None and all(alike(out, stored) for out in outs):
            self._sum(key, total, stored, outs)
        else:
            super().apply_and_pull(key, total, stored, outs)

    def _sum(self, key: Any, total: NDArray, stored: NDArray, outs: list[NDArray]) -> None:
        self._check()
        summed, number = self._target(key, stored), self._numbers[key]
        compression, residual = self._compression, None
        if compression is not None:
            residual = self._residuals.get(key)
            if residual is None:
                residual = self._residuals[key] = nd.zeros((stored.size,), ctx=cpu())
        told, priority = self._told(key, stored), self.priority
        send = in_main_memory(total)
        self._rounds.sum(number, told, send, (summed, *outs), priority, compression, residual)
        if self._updater is not None:
            super().apply(key, summed.as_in_context(stored.context), stored)
        elif summed is not stored:
            summed.copyto(stored)

    def _told(self, key: Any, stored: NDArray) -> tuple[str, int]:
        """What a push is, for messages, and the number by which workers compare it."""
        rates = () if self._updater is None else of_rates(self._updater)
        settings = self._doing, self._compression, rates, self._rounds.keys
        known = self._tellings.get(key)
        if known is None or known[0] != settings:
            told = (
                f"the {self._doing} of key {key!r}", *_form(stored),
                f"compression {_settings(self._compression)}", *rates, of_keys(self._rounds.keys),
            )  # fmt: skip
            known = self._tellings[key] = settings, (text_of(told), digest(told))
        return known[1]

    def _target(self, key: Any, stored: NDArray) -> NDArray:
        """Where the sum of a key goes: the value itself, or beside it."""
        if self._updater is None and stored.context.device_type.startswith("cpu"):
            self._sums.pop(key, None)
            return stored
        if key not in self._sums:
            self._sums[key] = beside(stored)
        return self._sums[key]

    def _check_pushed(self, what: str, given: Any) -> None:
        super()._check_pushed(what, given)
        if self._compression is not None:
            for key, _ in given:
                check_compressed(key, self._values[key])

    def _check(self) -> None:
        self._world.check_process()
        self._world.fault.check()


def _form(stored: NDArray) -> Told:
    return f"shape {stored.shape}", dtypes.name(stored._dtype_code)


def _settings(compression: Compression | None) -> str:
    return "none" if compression is None else f"{compression.kind} with threshold {compression.threshold}"
