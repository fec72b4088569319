# SPDX-License-Identifier: Apache-2.0
"""Whether saved states are those of the optimizer that is to use them."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray


def names_of(kind: type, base: type) -> list[str]:
    """The names of the public classes of mx below `base` that an optimizer's class is or extends, the nearest first.

    A program's own classes have no part in it: they may be renamed from one run to the next.
    """
    package = base.__module__.partition(".")[0] + "."
    return [
        cls.__name__
        for cls in kind.__mro__
        if issubclass(cls, base)
        and cls is not base
        and cls.__module__.startswith(package)
        and not cls.__name__.startswith("_")
    ]


def check_names(saved: object, used: list[str]) -> None:
    """Refuses states of another optimizer; a class and one that extends it may share states.

    Parameters
    ----------
    saved, used : list of str
        What `names_of` gave when the states were saved, and gives now.

    Raises
    ------
    ArgumentError  neither class extends the other
    FileFormatError  `saved` is something else than a list of names
    """
    if not isinstance(saved, list) or not saved or not all(isinstance(name, str) for name in saved):
        raise FileFormatError(
            f"optimizer states: expected the names of an optimizer's classes, got {saved!r:.200}"
        )
    there, here = ([name.lower() for name in names] for names in (saved, used))
    if there[0] not in here and here[0] not in there:
        raise ArgumentError(
            f"optimizer states: they are of the optimizer {saved[0]}, and the one used is {used[0]}: use {saved[0]}, "
            "or train without these states"
        )


def check_form(state: Any, expected: Any, where: str) -> None:
    """Refuses a state that is built in another way than what `create_state` gives.

    None stands for an array, too: with and without momentum, optimizers have the one or the other. What is neither
    None, an NDArray nor a tuple is left to the optimizer.

    Parameters
    ----------
    where : str
        Begins the message.

    Raises
    ------
    ArgumentError  the number of arrays or a shape differs
    """
    if not _fits(state, expected):
        raise ArgumentError(
            f"{where}: expected {_form(expected)}, as create_state gives, got {_form(state)}: the states that were "
            "loaded are of another optimizer, other settings or another network"
        )


def _fits(state: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        if not isinstance(state, (tuple, list)):
            return state is None  # the optimizer says what is missing
        return len(state) == len(expected) and all(map(_fits, state, expected))
    if isinstance(expected, NDArray):
        return state is None or (isinstance(state, NDArray) and state.shape == expected.shape)
    return expected is not None or state is None or isinstance(state, NDArray)


def _form(state: Any) -> str:
    if isinstance(state, (tuple, list)):
        return f"({', '.join(map(_form, state))}{',' if len(state) == 1 else ''})"
    if state is None:
        return "None"
    return f"array of shape {state.shape}" if isinstance(state, NDArray) else type(state).__name__
