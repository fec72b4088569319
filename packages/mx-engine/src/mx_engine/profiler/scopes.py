# SPDX-License-Identifier: Apache-2.0
"""Profiler scopes: prefixes of the names of what is recorded in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mx_core import scopes

UNKNOWN = "<unk>:"


@contextmanager
def scope(name: str = UNKNOWN, append_mode: bool = True) -> Iterator[str]:
    """What this thread records in the block is named `name` + its own name.

    It applies to calls (`profile_api`), events, tasks, frames, markers, and to the memory of arrays that are
    made in it (`encoder:ndarray`); operations keep the names of their operators, which tables sum up.

    Parameters
    ----------
    name : str
        A colon is added at the end when there is none.
    append_mode : bool
        Keep the name of the scope around this one before it.

    Yields
    ------
    str
        The prefix in force.

    Examples
    --------
    >>> with scope("encoder"), scope("layer1") as prefix:
    ...     prefix
    'encoder:layer1:'
    """
    former = scopes.prefix()
    added = name if name.endswith(":") else name + ":"
    # a scope without a name adds nothing to one that has some
    inner = former if append_mode and name == UNKNOWN and former else (former if append_mode else "") + added
    scopes.enter(inner)
    try:
        yield inner
    finally:
        scopes.enter(former)


def scoped(name: str) -> str:
    """`name` with the prefix of the thread's scope."""
    return scopes.prefix() + name
