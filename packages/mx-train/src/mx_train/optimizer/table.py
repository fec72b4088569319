# SPDX-License-Identifier: Apache-2.0
"""Tables of states that tell whether they were changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from mx_ndarray import NDArray


def _counted(method: Callable[..., Any]) -> Any:
    @wraps(method)
    def changing(self: StateTable, *args: Any, **kwargs: Any) -> Any:
        self.changes += 1
        return method(self, *args, **kwargs)

    return changing


class StateTable(dict[int | str, Any]):
    """States of an optimizer by index of the weight: a dict.

    Threads: one at a time.

    Attributes
    ----------
    changes : int
        How often states were put in, replaced or taken out; what is written to arrays does not count.
    """

    changes = 0
    __setitem__ = _counted(dict.__setitem__)
    __delitem__ = _counted(dict.__delitem__)
    __ior__ = _counted(dict.__ior__)
    clear = _counted(dict.clear)
    pop = _counted(dict.pop)
    popitem = _counted(dict.popitem)
    setdefault = _counted(dict.setdefault)
    update = _counted(dict.update)


class WithStates:
    """Has a table of states; in a pickle it is a plain dict. Threads: one at a time."""

    _states: StateTable

    @property
    def states(self) -> dict[int | str, Any]:
        """The states by index; a table that is set is copied."""
        return self._states

    @states.setter
    def states(self, states: Mapping[int | str, Any]) -> None:
        self._states = StateTable(states)

    def __getstate__(self) -> dict[str, Any]:
        others = {name: value for name, value in vars(self).items() if name != "_states"}
        return {**others, "states": dict(self._states)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def arrays_of(state: Any) -> list[NDArray]:
    """The arrays of a state: itself, or those within tuples and lists."""
    if isinstance(state, NDArray):
        return [state]
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in arrays_of(part)]
    return []
