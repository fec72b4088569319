# SPDX-License-Identifier: Apache-2.0
"""Updates of parameters by an optimizer that runs in a KVStore or in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mx_kvstore
from mx_core.environment import switch
from mx_core.errors import ArgumentError
from mx_core.files import atomic_write
from mx_kvstore import KVStoreBase
from mx_kvstore.factory import check
from mx_kvstore.updater import load_states
from mx_ndarray import NDArray, nd
from mx_train.optimizer import Optimizer, Updater, get_updater
from mx_train.optimizer.states import dump_states, read_states

#: elements of a parameter above which a `local` store leaves the updates to the contexts, as in MXNet
_LARGE = 1 << 24


def store_for(kvstore: str | KVStoreBase | None, contexts: int) -> KVStoreBase | None:
    """The store of a name; None for a local one where one context leaves it nothing to sum.

    Raises
    ------
    ArgumentError  it is no store, and no name of one
    """
    if not isinstance(kvstore, str):
        check(kvstore)
        return kvstore
    if contexts != 1 or not kvstore.lower().startswith(("local", "device")):
        made: KVStoreBase = mx_kvstore.create(kvstore)
        return made
    check(kvstore)
    return None


def in_store_by_default() -> bool:
    """What MXNET_UPDATE_ON_KVSTORE says, 0 or 1; without it true. Raises SettingError."""
    return switch("MXNET_UPDATE_ON_KVSTORE", True)


def runs_in(store: KVStoreBase, sizes: Iterable[int]) -> bool:
    """Whether a store runs the optimizer where nobody says otherwise, for parameters with so many elements.

    One that is capable does, unless MXNET_UPDATE_ON_KVSTORE is 0 or it is a `local` one with a large parameter. An
    asynchronous one must, since nothing else applies the gradients of all workers.
    """
    capable = store.is_capable(KVStoreBase.OPTIMIZER)
    if capable and "dist" in store.type and "async" in store.type:
        return True
    large = store.type == "local" and any(size > _LARGE for size in sizes)
    return capable and not large and in_store_by_default()


class Optimization:
    """An optimizer with the store that sums gradients, which runs it if `runs_in` says so.

    Files of states have MXNet's keys: names where the store runs the optimizer, otherwise numbers of parameters; on
    several contexts each has one per context, `number * contexts + context`.

    Parameters
    ----------
    optimizer : Optimizer
    store : KVStoreBase, optional
        Without one, gradients are summed here.
    weights : mapping of int to sequence of NDArray
        By number of the parameter, one array per context. The store gets the first and gives it to all.
    names : mapping of int to str
        Of the parameters. The store knows them by these.
    compression : mapping, optional
        What the store does with gradients that it sends.

    Threads: one at a time.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        store: KVStoreBase | None,
        weights: Mapping[int, Sequence[NDArray]],
        names: Mapping[int, str],
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        in_store = store is not None and runs_in(store, (arrays[0].size for arrays in weights.values()))
        self.optimizer = optimizer
        self.store = store
        self._names = dict(names)
        self._copies = max(map(len, weights.values()), default=1)
        self.updater: Updater | None = None if in_store else get_updater(optimizer)
        if store is None:
            return
        if compression:
            store.set_gradient_compression(compression)
        for key, arrays in weights.items():
            store.broadcast(self._key(key), arrays[0].copy(), out=arrays)
        if in_store:
            store.set_optimizer(optimizer)

    def knows(self, names: Sequence[str]) -> bool:
        """Whether it was made for all of some parameters."""
        return set(names) <= set(self._names.values())

    def _key(self, number: int) -> int | str:
        """What the store calls a parameter; one of another module is known by its number alone."""
        return self._names.get(number, number)

    def update(self, work: Sequence[tuple[int, Sequence[NDArray], Sequence[NDArray]]]) -> None:
        """Sums gradients, applies the optimizer, gives each context the new weights; asynchronous.

        Parameters
        ----------
        work : sequence of (number of the parameter, weights, gradients), one array per context
        """
        if self.updater is None:
            assert self.store is not None
            for key, weights, grads in work:
                self.store.pushpull(self._key(key), grads, out=weights, priority=-key)
            return
        sums = [self._sum(key, grads) for key, _, grads in work]
        self.updater([key for key, *_ in work], sums, [weights[0] for _, weights, _ in work])
        for _, weights, _ in work:
            for other in weights[1:]:
                weights[0].copyto(other)

    def _sum(self, key: int, grads: Sequence[NDArray]) -> NDArray:
        """The gradients of all contexts, and of all workers of a store, on the first context."""
        if self.store is not None:
            self.store.sum(self._key(key), grads, priority=-key)
            return grads[0]
        if len(grads) == 1:
            return grads[0]
        total: NDArray = nd.add_n(*(grad.as_in_context(grads[0].context) for grad in grads))
        return total

    def save_states(self, path: str) -> None:
        """Writes the optimizer's states, atomically."""
        if self.updater is None:
            assert self.store is not None
            self.store.save_optimizer_states(path)
            return
        states = self.updater.get_states()
        with atomic_write(path) as file:
            file.write(
                states if self._copies == 1 else dump_states(per_context(read_states(states), self._copies))
            )

    def load_states(self, path: str) -> None:
        """Takes states that `save_states` or MXNet wrote; errors name the file."""
        if self.updater is None:
            assert self.store is not None
            self.store.load_optimizer_states(path)
        else:
            load_states(self._set_states, path)

    def _set_states(self, data: bytes | bytearray) -> None:
        assert self.updater is not None
        self.updater.set_states(data)
        self.updater.take_first_of_each(max(self._names, default=-1) + 1)


def per_context(states: Mapping[Any, Any], contexts: int) -> dict[Any, Any]:
    """States by number of the parameter as MXNet has them where each context has its own."""
    numbers = {key: value for key, value in states.items() if isinstance(key, int)}
    others = {key: value for key, value in states.items() if not isinstance(key, int)}
    return {key * contexts + i: value for key, value in numbers.items() for i in range(contexts)} | others


def rescaling(batch_size: int, store: KVStoreBase | None) -> float:
    """1 / the examples whose gradients are summed: an asynchronous store sums those of one worker only."""
    summed = store is not None and "async" not in store.type
    return 1.0 / (batch_size * (store.num_workers if summed and store is not None else 1))


def warn_of_rescaling(optimizer: Optimizer, usual: float) -> None:
    """Warns the caller's caller of an optimizer whose `rescale_grad` is not the usual factor."""
    if optimizer.rescale_grad != usual:
        warnings.warn(
            f"[Module] rescale_grad of the given optimizer is {optimizer.rescale_grad}; 1 / examples per update is "
            f"{usual}, so steps have another size than with an optimizer given by name",
            stacklevel=3,
        )


def check_shared(names: Sequence[str], known: Mapping[str, int]) -> None:
    """Refuses parameters that another module's optimizer does not know.

    Raises
    ------
    ArgumentError  there are some; the message names them
    """
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError(f"[Module] the shared module has no parameters {', '.join(unknown)}")
