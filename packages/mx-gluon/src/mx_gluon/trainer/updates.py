# SPDX-License-Identifier: Apache-2.0
"""One optimizer on the copies of parameters that lie on several contexts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mx_gluon.parameter import Parameter
from mx_ndarray import NDArray
from mx_train.optimizer import Optimizer, Updater, get_updater

#: indices of parameters, their gradients and their weights on one context
Work = tuple[tuple[int, ...], tuple[NDArray, ...], tuple[NDArray, ...]]


class Replicas:
    """An updater per context. What the optimizer remembers of a parameter by its index is kept per context, too.

    Each context counts its own updates; otherwise Adam on two contexts would correct its means twice as fast.

    Threads: one at a time.

    Parameters
    ----------
    optimizer : Optimizer
    count : int
        Number of contexts.
    """

    def __init__(self, optimizer: Optimizer, count: int) -> None:
        self.optimizer = optimizer
        self.updaters: list[Updater] = [get_updater(optimizer) for _ in range(count)]
        for updater in self.updaters:
            updater.rescaled = True
        self._memories: list[dict[str, Any]] = [self._fresh() for _ in range(count)]

    def _fresh(self) -> dict[str, Any]:
        """Copies of what the optimizer knows by index."""
        names = ("_index_update_count", *self.optimizer._remembered)
        return {name: dict(getattr(self.optimizer, name)) for name in names}

    @contextmanager
    def _memory(self, place: int) -> Iterator[Updater]:
        self._recall(place)
        try:
            yield self.updaters[place]
        finally:
            self._keep(place)

    def _recall(self, place: int) -> None:
        for name, value in self._memories[place].items():
            setattr(self.optimizer, name, value)

    def _keep(self, place: int) -> None:
        self._memories[place] = {name: getattr(self.optimizer, name) for name in self._memories[place]}

    def update(self, place: int, work: Work) -> None:
        """Updates weights on one context; asynchronous.

        Parameters
        ----------
        work : indices, gradients and weights
        """
        indices, grads, weights = work
        if not indices:
            return
        self._recall(place)
        try:
            self.updaters[place](indices, grads, weights)
        finally:
            self._keep(place)

    def forget(self, index: int) -> bool:
        """Has the state of a parameter made anew, if the optimizer keeps nothing for it; otherwise false."""
        if any(updater.states.get(index) is not None for updater in self.updaters):
            return False
        for updater in self.updaters:
            updater.states.pop(index, None)
        return True

    def states(self) -> bytes:
        """States of the first context, in the form that MXNet reads."""
        with self._memory(0) as updater:
            return updater.get_states()

    def set_states(self, states: bytes | bytearray) -> None:
        """Gives all contexts the states of one; they are checked before.

        Raises
        ------
        FileFormatError  the bytes are damaged
        ArgumentError    the states are of another optimizer or another network
        """
        weights = {
            index: param.list_data()[0]
            for index, param in self.optimizer.param_dict.items()
            if isinstance(param, Parameter) and param._data and param.grad_req != "null"
        }
        for place in range(len(self.updaters)):
            with self._memory(place) as updater:
                updater.set_states(states, None if place else weights)
