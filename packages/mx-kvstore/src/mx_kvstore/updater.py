# SPDX-License-Identifier: Apache-2.0
"""Updaters: what a store calls with (key, sum of the pushed arrays, stored value)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import read_bytes
from mx_ndarray import NDArray

Updater = Callable[[Any, NDArray, NDArray], None]


class OptimizerUpdater:
    """Keeps an optimizer's state for every key. Threads: one at a time; its store holds a lock."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}

    def __call__(self, key: Any, grad: NDArray, weight: NDArray) -> None:
        """Updates `weight` in place; asynchronous."""
        if key not in self.states:
            self.states[key] = self.optimizer.create_state_multi_precision(key, weight)
        self.optimizer.update_multi_precision(key, weight, grad, self.states[key])


def updater_for(optimizer: Any) -> Updater:
    """The updater of an optimizer.

    An optimizer that has `make_updater()` is asked for it; any other needs
    `create_state_multi_precision(key, weight)` and
    `update_multi_precision(key, weight, grad, state)`.

    Raises
    ------
    ArgumentError
        It has neither.
    """
    make = getattr(optimizer, "make_updater", None)
    if make is not None:
        made: Updater = make()
        return made
    for method in ("create_state_multi_precision", "update_multi_precision"):
        if not callable(getattr(optimizer, method, None)):
            raise ArgumentError(
                f"[KVStore.set_optimizer] expected an optimizer, got {type(optimizer).__name__} "
                f"without {method}"
            )
    return OptimizerUpdater(optimizer)


def load_states(set_states: Callable[[bytearray], None], fname: str) -> None:
    """Gives the bytes of a file to an updater's `set_states`; an error of what they hold names the file.

    Raises
    ------
    MissingFileError, FileFormatError, ArgumentError
        There is no such file, it is damaged, or its states are of another optimizer.
    """
    data = read_bytes(fname)
    try:
        set_states(data)
    except (ArgumentError, FileFormatError) as error:
        kind = ArgumentError if isinstance(error, ArgumentError) else FileFormatError
        raise kind(f"{fname}: {error}") from error
