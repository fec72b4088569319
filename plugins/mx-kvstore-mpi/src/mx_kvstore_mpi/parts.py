# SPDX-License-Identifier: Apache-2.0
"""Which server holds which part of a value, and in which slices the part travels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Elements `begin` to `end` of a value in row-major order, on a server.

    Parameters
    ----------
    server : int
        From 0.
    begin, end : int
    """

    server: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many elements."""
        return self.end - self.begin


def parts(number: int, size: int, servers: int, bound: int) -> list[Part]:
    """The parts of the value of a key: one, or from `bound` elements on one per server.

    Source: MXNet's rule for arrays of at least MXNET_KVSTORE_BIGARRAY_BOUND elements.
    """
    if size < bound or servers == 1:
        return [Part(number * 9973 % servers, 0, size)]
    ends = [round(size / servers * place) for place in range(servers + 1)]
    return [Part(place, ends[place], ends[place + 1]) for place in range(servers)]


def slices(size: int, step: int) -> Iterator[slice]:
    """So many elements in slices of `step`; one slice without elements where there are none."""
    return (slice(begin, min(begin + step, size)) for begin in range(0, max(size, 1), step))


def slice_count(size: int, step: int) -> int:
    """How many slices there are."""
    return max(-(-size // step), 1)
