# SPDX-License-Identifier: Apache-2.0
"""Assertions that work with and without pytest."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def raises(kind: type[BaseException], match: str = "") -> Iterator[list[BaseException]]:
    """The block must raise `kind` with a message that `match` finds; yields the exception in a list."""
    caught: list[BaseException] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        assert re.search(match, str(error)), f"message {str(error)!r} does not match {match!r}"
    else:
        raise AssertionError(f"expected {kind.__name__}, nothing was raised")


def check_equal(what: str, found: object, wanted: object) -> None:
    """They must be equal; the message names `what` and has both."""
    assert found == wanted, f"{what}: expected {wanted!r}, got {found!r}"


def check_attributes(made: object, names: Sequence[str]) -> None:
    """The object must have every one of these attributes; the message has those that it lacks."""
    lacking = [name for name in names if not hasattr(made, name)]
    assert not lacking, (
        f"{type(made).__name__} lacks {', '.join(lacking)}; the contract needs {', '.join(names)}"
    )


def within(seconds: float) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator: the function must end in time, or an AssertionError says that it hangs.

    It runs on a thread of its own, which is left behind when it hangs.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            outcome: list[T] = []
            failure: list[BaseException] = []

            def run() -> None:
                try:
                    outcome.append(function(*args, **kwargs))
                except BaseException as error:  # carried to the caller's thread
                    failure.append(error)

            thread = threading.Thread(target=run, name=function.__name__, daemon=True)
            thread.start()
            thread.join(seconds)
            assert not thread.is_alive(), f"{function.__name__} did not end within {seconds:g} s"
            if failure:
                raise failure[0]
            return outcome[0]

        return timed

    return decorate
