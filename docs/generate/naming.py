# SPDX-License-Identifier: Apache-2.0
"""Under which name a program finds an operator, and how its page is called."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import mx
from generate.examples import path
from mx_core.operator import Operator

#: beginnings of operator names whose function of `mx.nd.random` takes numbers and arrays
DRAWN = ("_random_", "_sample_unique")
#: where functions written in Python that call one operator may stand
SPACES = ("", "contrib.")


@cache
def public_name(op: Operator) -> str | None:
    """`linalg.gemm` for what `mx.nd.linalg.gemm` computes; None for what has no name without an underscore."""
    if op.name.startswith(DRAWN):
        short = "random." + op.name.split("_", 2)[2]
        if found(mx.nd, short) is not None:
            return short
    if hasattr(found(mx.nd, op.name), "__wrapped_operator__") and not op.name.startswith("_"):
        return op.name
    generated = path(op).removeprefix("mx.nd.")
    if not generated.startswith("_internal."):
        return generated.removeprefix("op.")
    for space in SPACES:
        front = found(mx.nd, space + op.name.removeprefix("_"))
        if front is not None and getattr(front, "__module__", "").startswith("mx_ndarray."):
            return space + op.name.removeprefix("_")
    return None


def functions(op: Operator) -> list[str]:
    """Paths of the functions of `mx.nd` that reach an operator, the best first."""
    name = public_name(op)
    return list(dict.fromkeys([*([f"mx.nd.{name}"] if name else []), path(op)]))


def own_function(op: Operator) -> Any:
    """The function of `mx.nd` that is written in Python and calls the operator; None if it is generated."""
    name = public_name(op)
    front = None if name is None else found(mx.nd, name)
    return None if front is None or hasattr(front, "__wrapped_operator__") else front


def found(module: ModuleType, name: str) -> Any:
    """What a dotted name leads to; None if nothing."""
    place: Any = module
    for part in name.split("."):
        try:
            place = getattr(place, part)
        except AttributeError:
            return None
    return place


def shown(op: Operator) -> str:
    """The name on the page."""
    return public_name(op) or op.name
