# SPDX-License-Identifier: Apache-2.0
"""A store that keeps nothing, for tests of programs that use stores."""

from __future__ import annotations

from typing import Any

from mx_core import dtypes
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_kvstore.contract import KVStoreBase
from mx_kvstore.keys import Key, as_priority, pairs
from mx_kvstore.reduction import sum_into
from mx_ndarray import NDArray


@KVStoreBase.register
class TestStore(KVStoreBase):
    """The smallest store there is, MXNet's `teststore`: it sums the arrays of a call, and keeps no values.

    Threads: any; it has no state.
    """

    __test__ = False  # pytest takes it for no class of tests

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copies each value to the arrays of `out`."""
        given = _fitting("broadcast", key, value, out)
        for each, arrays, _ in given:
            if len(arrays) != 1:
                raise ArgumentError(
                    f"[KVStore.broadcast] key {each!r}: expected one value, got {len(arrays)}"
                )
        for _, arrays, targets in given:
            sum_into(arrays, targets, as_priority(priority))

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sums the arrays of each key, and copies the sum to those of `out`, or back."""
        for _, arrays, targets in _fitting("pushpull", key, value, value if out is None else out):
            sum_into(arrays, targets, as_priority(priority))

    @property
    def type(self) -> str:
        """Its name."""
        return "teststore"

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1


def _fitting(what: str, key: Any, value: Any, out: Any) -> list[tuple[Key, list[NDArray], list[NDArray]]]:
    """Keys with what is read and what is written, all of one shape.

    Raises
    ------
    ShapeError  arrays of a key differ in their shape
    DTypeError  those that are read differ in their type
    """
    given = [
        (each, arrays, targets)
        for (each, arrays), (_, targets) in zip(
            pairs(key, value, "value"), pairs(key, out, "out"), strict=True
        )
    ]
    for each, arrays, targets in given:
        first = arrays[0]
        for array in (*arrays, *targets):
            if array.shape != first.shape:
                raise ShapeError(
                    f"[KVStore.{what}] key {each!r}: expected shape {first.shape}, got {array.shape}"
                )
        for array in arrays:
            if array.dtype != first.dtype:
                wanted, got = (dtypes.name(dtypes.code(one.dtype)) for one in (first, array))
                raise DTypeError(f"[KVStore.{what}] key {each!r}: expected {wanted}, got {got}")
    return given
