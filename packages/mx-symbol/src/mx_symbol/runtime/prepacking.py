# SPDX-License-Identifier: Apache-2.0
"""Prepared values of executors that share memory: packed weights and folded constants, each once.

A prepack is a program of its own that runs before those that read its values, and only when an array that it
reads was written. Executors that share an arena, as those of buckets do, use one another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from mx_core.weak import WeakTable
from mx_ndarray import NDArray
from mx_symbol.graph import Entry, Node

if TYPE_CHECKING:
    from mx_symbol._core import Binding


class Prepack:
    """A bound program and the arrays that it keeps.

    Threads: any may run it.

    Attributes
    ----------
    arrays : what it keeps, by number of the value
    """

    def __init__(self, binding: Binding, arrays: Mapping[int, NDArray], reads: Iterable[NDArray]) -> None:
        self.arrays = dict(arrays)
        self._binding = binding
        self._reads = tuple(reads)  # while they live, no other array has their identity

    def push(self) -> None:
        """Runs it, if there is anything to do; asynchronous."""
        self._binding.push(0)


class PrepackCache:
    """The prepacks that are in use, by the values that they keep.

    Equal operators on equal values, down to the same arrays, are one value with one number.

    Threads: one at a time; a CachedOp holds its lock.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._next = count()
        self._known: WeakTable[int, Prepack] = WeakTable()

    def numbered(
        self, nodes: Iterable[Node], variables: Mapping[Entry, NDArray], is_train: bool
    ) -> dict[Entry, int]:
        """Numbers of all values that some nodes, in order, compute from variables."""
        self._forget()
        found: dict[Entry, int] = {}
        for node in nodes:
            inputs = []
            for entry in node.inputs:
                if entry not in found:
                    found[entry] = self._number(("variable", id(variables[entry])))
                inputs.append(found[entry])
            call = self._number((node.op, node.params, tuple(inputs), is_train))
            for i in range(node.num_outputs):
                found[Entry(node, i)] = self._number((call, i))
        return found

    def _number(self, key: Any) -> int:
        if key not in self._numbers:
            self._numbers[key] = next(self._next)
        return self._numbers[key]

    def _forget(self) -> None:
        """Drops numbers that nothing in use was computed from."""
        needed = {number for number, _ in self._known.items()}
        for key, number in reversed(self._numbers.items()):  # what a value is computed from came before it
            if number not in needed or key[0] == "variable":
                continue
            needed.update(key[2] if len(key) == 4 else key[:1])
        self._numbers = {key: number for key, number in self._numbers.items() if number in needed}

    def find(self, number: int) -> Prepack | None:
        """The prepack that keeps a value."""
        return self._known.get(number)

    def add(self, made: Prepack) -> None:
        """Adds one, which stays while it is referenced."""
        for number in made.arrays:
            self._known[number] = made
