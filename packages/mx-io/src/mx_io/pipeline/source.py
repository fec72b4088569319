# SPDX-License-Identifier: Apache-2.0
"""Where examples come from: the base of sources, and parts of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mx_core.errors import ArgumentError


class Example(NamedTuple):
    """One example as a source gives it.

    Attributes
    ----------
    data : bytes-like, or ndarray of uint8, shape (height, width, channels)
        An image in the format of an installed codec, or its pixels, red first.
    label : number or array of numbers
    number : int
        What `batch.index` says of it, 0 or more.
    """

    data: Any
    label: Any = 0.0
    number: int = 0


class Source:
    """Base of sources of examples: subclasses give `__len__` and `read`.

    Threads: `read` is called from several at once, and from forked children; the rest by one at a time.
    """

    def __len__(self) -> int:
        """How many examples there are; it does not change."""
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def read(self, positions: Sequence[int]) -> Sequence[Example]:
        """The examples at some positions, 0 to len - 1.

        What it raises as MXNetError or OSError is of the example that is asked for alone: where several are asked for,
        they are read again one by one.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define read")

    def place(self, position: int) -> str:
        """Where an example lies, for messages."""
        return f"example {position}"

    def key(self, position: int) -> int:
        """What the random numbers of an example depend on: 0 or more, the same in every part of a source."""
        return position

    def close(self) -> None:
        """Free what the source holds; it is not read afterwards."""


class Part(Source):
    """One of `count` parts of a source that differ by one example at most; every example is in one of them.

    Raises
    ------
    ArgumentError  `index` is not one of 0 to `count` - 1
    """

    def __init__(self, source: Source, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise ArgumentError(
                f"[{type(source).__name__}] expected part_index < num_parts, got {index} of {count}"
            )
        self._source = source
        total = len(source)
        self._first, self._end = total * index // count, total * (index + 1) // count

    def __len__(self) -> int:
        return self._end - self._first

    def read(self, positions: Sequence[int]) -> Sequence[Example]:
        return self._source.read([self._first + position for position in positions])

    def place(self, position: int) -> str:
        return self._source.place(self._first + position)

    def key(self, position: int) -> int:
        return self._source.key(self._first + position)

    def close(self) -> None:
        self._source.close()
