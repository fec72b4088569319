# SPDX-License-Identifier: Apache-2.0
"""What stores of several processes are built of: which values all workers have ready, and their sums on one machine.

`Exchange` has the calls of keys, in order, and finds in rounds what all workers have ready. `Exchange.run` does all of
that natively, between the workers of one machine through a `Window`: memory that they share, and between machines
through `Links`: connections. Otherwise a store takes the rounds apart: it gives the least of what the workers `tell` to
`decide`, and exchanges the requests that it gets.

A window that is served by `Neighbours` adds large arrays where they lie. They are put into memory that the others have
mapped when they are first exchanged, at the same addresses.
"""

from __future__ import annotations

from mx_core import services
from mx_kvstore._core import Exchange, Found, Links, Neighbours, Request, Window
from mx_ndarray import NDArray, invoke_capsule

__all__ = [
    "CODES",
    "FIRST",
    "SUM",
    "Exchange",
    "Found",
    "Links",
    "Neighbours",
    "Request",
    "Window",
    "parts_of",
    "push",
    "text_of",
]

#: kinds of calls: the sum over workers; the value of worker 0; the sum of what codes of gradients stand for
SUM, FIRST, CODES = 0, 1, 2
#: between what a call is and its details
_BETWEEN = "\x1f"


def text_of(told: tuple[str, ...]) -> str:
    """What a call is and its details, as one text."""
    return _BETWEEN.join(told)


def parts_of(text: str) -> tuple[str, ...]:
    """The inverse of `text_of`."""
    return tuple(text.split(_BETWEEN))


def push(
    exchange: Exchange,
    kind: int,
    key: int,
    told: str,
    mark: int,
    priority: int,
    reads: tuple[NDArray, ...],
    writes: tuple[NDArray, ...],
    bits: int = 2,
    threshold: float = 0.0,
) -> None:
    """Pushes the engine operation of a call, which ends when it is exchanged. Threads: any.

    Parameters
    ----------
    exchange : Exchange
    kind : int
        `SUM`, `FIRST` or `CODES`.
    key : int
        Of `Exchange.new_key`. Calls of a key take their places in its line in the order in which this is called.
    told, mark : str, int
        What it is, for messages, as `text_of` gives it, and a number of 62 bits that stands for it.
    priority : int
        Larger ones go first.
    reads, writes : tuples of NDArray
        In main memory: what is sent, but for `FIRST`; and where the result goes. With `CODES` the residual is the last
        one that is written.
    bits, threshold : int, float
        Of `CODES`.
    """
    reading, writing = [array.handle for array in reads], [array.handle for array in writes]
    engine = services.engine().capsule
    exchange.push(
        engine, invoke_capsule(), kind, key, told, mark, priority, reading, writing, bits, threshold
    )
