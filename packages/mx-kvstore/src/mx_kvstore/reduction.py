# SPDX-License-Identifier: Apache-2.0
"""Sums over devices. Everything here only pushes work to the engine; nothing waits."""

from __future__ import annotations

from mx_core.context import Context
from mx_ndarray import NDArray, nd


def reduced(arrays: list[NDArray], context: Context) -> NDArray:
    """The sum of `arrays` on `context`; the array itself when there is one and it lies there."""
    moved = [array.as_in_context(context) for array in arrays]
    return moved[0] if len(moved) == 1 else nd.add_n(*moved)


class Placement:
    """Which device sums which key: that of a key's arrays which has the fewest bytes so far.

    Threads: one at a time; its store holds a lock.
    """

    def __init__(self) -> None:
        self._load: dict[Context, int] = {}

    def choose(self, arrays: list[NDArray]) -> Context:
        """A context of `arrays`; they count for it from now on."""
        contexts = dict.fromkeys(array.context for array in arrays)
        best = min(contexts, key=lambda context: self._load.get(context, 0))
        self._load[best] = self._load.get(best, 0) + arrays[0].size
        return best
