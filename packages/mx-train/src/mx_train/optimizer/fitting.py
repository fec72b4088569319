# SPDX-License-Identifier: Apache-2.0
"""Whether saved states are those of the optimizer that is to use them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray

_PACKAGE = __name__.partition(".")[0] + "."


def is_public(kind: type) -> bool:
    """Whether a class is one of mx that programs use by its name."""
    return kind.__module__.startswith(_PACKAGE) and not kind.__name__.startswith("_")


def names_of(kind: type, base: type) -> list[str]:
    """The names of an optimizer's classes, as they stand among its states.

    First those of mx below `base` that it is or extends, the nearest first, then that of `base`, then those of other
    packages or of the program, again the nearest first.
    """
    below = [cls for cls in kind.__mro__ if issubclass(cls, base) and cls is not base]
    ours = [cls.__name__ for cls in below if is_public(cls)]
    return [*ours, base.__name__, *(cls.__name__ for cls in below if not cls.__module__.startswith(_PACKAGE))]


def names_of_dumped(name: str, base: type) -> list[str] | None:
    """`names_of` of the class of an optimizer that was dumped, which is known by its name alone; None if mx has none.

    Only names of mx and MXNet are read from a dump, so a program's class of this name is another one.
    """
    kind = _class_of_mx(name, base)
    return None if kind is None else names_of(kind, base)


def check_names(saved: object, used: type, base: type, registered: Mapping[str, Any]) -> None:
    """Refuses states of another optimizer; a class and one that extends it may share states.

    What a program calls its own class may change from one run to the next. So the states of a class of another name
    are taken with a warning if both extend the same optimizer, unless the name is still that of another one.

    Parameters
    ----------
    saved : list of str
        What `names_of` gave when the states were saved.
    used : type
        The class of the optimizer that is to use them.
    registered : mapping
        Optimizers by name.

    Raises
    ------
    ArgumentError  neither class extends the other
    FileFormatError  `saved` is something else than a list of names
    """
    if not isinstance(saved, list) or not saved or not all(isinstance(name, str) for name in saved):
        raise FileFormatError(
            f"optimizer states: expected the names of an optimizer's classes, got {saved!r:.200}"
        )
    there, own_there = _split(saved, base)
    here, own_here = _split(names_of(used, base), base)
    told = (_told(there, own_there, base), _told(here, own_here, base))
    if not _related(there, here) or _is_another(own_there, own_here, used, registered):
        raise ArgumentError(
            "optimizer states: they are of the optimizer {}, and the one used is {}: use {}, or train without these "
            "states".format(*told, (own_there or there or [base.__name__])[0])
        )
    if own_there and own_here and not _related(own_there, own_here):
        logging.warning("The states that were saved by the optimizer %s are used by %s.", *told)


def _split(names: list[str], base: type) -> tuple[list[str], list[str]]:
    """The names of mx's classes, and of others. Files had none for `base` once, and others before those of mx."""
    if base.__name__ in names:
        at = names.index(base.__name__)
        return names[:at], names[at + 1 :]
    at = next((i for i, name in enumerate(names) if _class_of_mx(name, base) is not None), len(names))
    return names[at:], names[:at]


def _class_of_mx(name: str, base: type) -> type | None:
    found = getattr(sys.modules[base.__module__.rpartition(".")[0]], name, None)
    return found if isinstance(found, type) and issubclass(found, base) and is_public(found) else None


def _related(first: list[str], second: list[str]) -> bool:
    """Whether one of two classes, given with those that it extends, extends the other."""
    if not (first and second):
        return not (first or second)
    there, here = ([name.lower() for name in names] for names in (first, second))
    return there[0] in here or here[0] in there


def _is_another(saved: list[str], names: list[str], used: type, registered: Mapping[str, Any]) -> bool:
    """Whether the first of `saved` is the name of an optimizer that has nothing to do with the one used."""
    if not (saved and names) or _related(saved, names):
        return False
    other = registered.get(saved[0])
    return isinstance(other, type) and not (issubclass(other, used) or issubclass(used, other))


def _told(ours: list[str], own: list[str], base: type) -> str:
    nearest = ours[0] if ours else base.__name__
    return f"{own[0]} (which extends {nearest})" if own else nearest


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


def same_form(first: Any, second: Any) -> bool:
    """Whether two states have arrays of the same shapes in the same places."""
    return _fits(first, second) and _fits(second, first)


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
