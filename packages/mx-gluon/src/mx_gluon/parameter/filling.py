# SPDX-License-Identifier: Apache-2.0
"""The first values of a parameter: an initializer's, once the shape is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mx_core import dtypes
from mx_core.context import Context, cpu, current_context
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train import initializer

#: an initializer, the name of one, or anything that fills an array by name, such as `Mixed` and `Load`
Init = Any
Contexts = Context | Sequence[Context] | None


@dataclass
class Deferred:
    """What is to be done once a parameter's shape is known. Threads: one at a time."""

    init: Init
    contexts: list[Context]
    default_init: Init
    data: NDArray | None = None


def contexts_of(given: Contexts) -> list[Context]:
    """Contexts as a list; the thread's default where None is given.

    Raises
    ------
    ArgumentError  there is none in the list, or something else
    """
    if given is None:
        return [current_context()]
    listed = [given] if isinstance(given, Context) else list(given)
    if not listed or not all(isinstance(each, Context) for each in listed):
        raise ArgumentError(f"[Parameter] ctx: expected a Context or several, got {given!r}")
    return listed


def filled(name: str, shape: Sequence[int], dtype: Any, init: Init, default_init: Init) -> NDArray:
    """A new array in main memory with the first values of a parameter.

    Parameters
    ----------
    init : initializer or name
        Fills the array whatever the parameter's name ends in. What is no initializer, but can be called, chooses by
        the name.
    default_init : initializer or name
        Is asked to find `init`, as MXNet does.
    """
    data = nd.zeros(
        tuple(shape), ctx=cpu(), dtype=dtypes.name(dtypes.code(dtype, f"[Parameter {name}] dtype"))
    )
    if not isinstance(init, (str, initializer.Initializer)) and callable(init):
        init(name, data)
        return data
    outer = (
        default_init if isinstance(default_init, (str, initializer.Initializer)) else initializer.Uniform()
    )
    initializer.create(outer)(initializer.InitDesc(name, {"__init__": init}), data)
    return data
