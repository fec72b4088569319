# SPDX-License-Identifier: Apache-2.0
"""Contexts and settings of tests."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

import numpy as np

from mx.util import environment as environment
from mx_core.context import Context, current_context, num_gpus
from mx_core.errors import ArgumentError

P = ParamSpec("P")


def default_context() -> Context:
    """The context tests use: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Makes a context the calling thread's default; inside a `with` block of another one until that ends."""
    Context.default_ctx = ctx


def default_dtype() -> type[np.float32]:
    """The type of random arrays: float32."""
    return np.float32


def list_gpus() -> range:
    """The numbers of the GPUs that can be used."""
    return range(num_gpus())


def retry(n: int) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorates a test that may fail by chance: one of up to n attempts must pass."""
    if n <= 0:
        raise ArgumentError(f"[retry] n: expected at least 1, got {n}")

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def attempts(*args: P.args, **kwargs: P.kwargs) -> None:
            for _ in range(n - 1):
                try:
                    return test(*args, **kwargs)
                except AssertionError as error:
                    print(f"{test.__name__}: {error}; once more", file=sys.stderr)
            return test(*args, **kwargs)

        return attempts

    return decorate


def assert_exception(
    f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any
) -> None:
    """Checks that `f(*args, **kwargs)` raises an exception of a type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} raised no {exception_type.__name__}")


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discards what native code writes to standard error."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
