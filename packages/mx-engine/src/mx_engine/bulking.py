# SPDX-License-Identifier: Apache-2.0
"""Bulk scopes: small operations of a thread go to a worker together. MXNet's `mx.engine`.

Examples
--------
>>> from mx_engine import bulking
>>> with bulking.bulk(10):
...     pass  # operations pushed here are handed to workers ten at a time
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mx_core import services
from mx_engine import _core

__all__ = ["bulk", "set_bulk_size"]


def set_bulk_size(size: int) -> int:
    """How many operations the calling thread gathers from now on before a worker gets them.

    It concerns native operations of normal priority that are pushed one after another to one
    context. Order, results and failures are the same as without. What is gathered is handed over
    when there are `size` of them, when another kind of operation is pushed, when any thread waits,
    and at the next call of this function.

    Parameters
    ----------
    size : int
        1 or less: every operation by itself.

    Returns
    -------
    int
        The former size, 0 for none.

    Raises
    ------
    ArgumentError
        Not a whole number of 32 bits.
    """
    return _core.set_bulk_size(services.engine().capsule, size)


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """A scope within which `set_bulk_size(size)` holds for the calling thread."""
    former = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(former)
