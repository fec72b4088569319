# SPDX-License-Identifier: Apache-2.0
"""`mx.util`: environment variables, GPUs, and how shapes of symbols are read."""

from __future__ import annotations

import os
import sys as _sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mx.absent import explain as _explain
from mx_core.context import num_gpus
from mx_core.errors import ArgumentError
from mx_symbol.graph.shape_mode import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = [
    "environment", "get_gpu_count", "getenv", "is_np_array", "is_np_shape", "np_shape", "set_module", "set_np_shape",
    "setenv", "use_np_shape",
]  # fmt: skip

T = TypeVar("T")


def getenv(name: str) -> str | None:
    """The value of an environment variable; None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Sets an environment variable, or removes it with None; Python and C see the change.

    Most settings are read once, when they are needed first.
    """
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Environment variables for a block: `environment("NAME", "value")` or a mapping; None unsets."""
    if len(args) == 1 and isinstance(args[0], Mapping):
        wanted: dict[str, str | None] = dict(args[0])
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise ArgumentError(f"[environment] expected a name and a value, or a mapping, got {args!r}")
    saved = {name: os.environ.get(name) for name in wanted}
    _put(wanted)
    try:
        yield
    finally:
        _put(saved)


def _put(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def get_gpu_count() -> int:
    """The number of GPUs that can be used."""
    return num_gpus()


def is_np_array() -> bool:
    """False: no arrays of NumPy semantics are here, so that programs for both kinds take NDArrays."""
    return False


def set_module(module: str | None) -> Callable[[T], T]:
    """A decorator that sets `__module__` of a function or class, unless `module` is None."""

    def decorate(made: T) -> T:
        if module is not None:
            made.__module__ = module
        return made

    return decorate


_explain(_sys.modules[__name__], [__name__])
