# SPDX-License-Identifier: Apache-2.0
"""`mx.util`: environment variables, GPUs, and how shapes of symbols are read."""

from __future__ import annotations

import os
import sys as _sys
from collections.abc import Callable
from typing import TypeVar

from mx.absent import explain as _explain
from mx_core.context import num_gpus
from mx_symbol.graph.shape_mode import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = [
    "get_gpu_count", "getenv", "is_np_shape", "np_shape", "set_module", "set_np_shape", "setenv", "use_np_shape",
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


def get_gpu_count() -> int:
    """The number of GPUs that can be used."""
    return num_gpus()


def set_module(module: str | None) -> Callable[[T], T]:
    """A decorator that sets `__module__` of a function or class, unless `module` is None."""

    def decorate(made: T) -> T:
        if module is not None:
            made.__module__ = module
        return made

    return decorate


_explain(_sys.modules[__name__], [__name__])
