# SPDX-License-Identifier: Apache-2.0
"""Converts the forms in which keys and values may be given to one form."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray

Key = int | str
#: what `pairs` gives
Given = list[tuple[Key, list[NDArray]]]


def as_key(key: Any) -> Key:
    """A key as `int` or `str`.

    Raises
    ------
    ArgumentError
        It is neither.
    """
    if type(key) is int or isinstance(key, str):
        return key
    if isinstance(key, bool) or not isinstance(key, Integral):
        raise ArgumentError(f"[KVStore] key: expected an int or a str, got {key!r}")
    return int(key)


def as_priority(value: Any) -> int:
    """A priority as `int` of 32 bits.

    Raises
    ------
    ArgumentError
        It is no such number.
    """
    if type(value) is int and -(2**31) <= value < 2**31:  # most are; `isinstance` is slow here
        return value
    if not isinstance(value, Integral) or not -(2**31) <= int(value) < 2**31:
        raise ArgumentError(f"[KVStore] priority: expected an integer of 32 bits, got {value!r}")
    return int(value)


def pairs(keys: Any, values: Any, what: str) -> Given:
    """Each key once, in the order of first mention, with all arrays given for it.

    Parameters
    ----------
    keys : int, str or sequence of them (all of one kind)
    values : NDArray or sequence of NDArrays for one key; for a sequence of keys a sequence of these
    what : str
        Name of `values`, for errors.

    Raises
    ------
    ArgumentError
        Keys of two kinds, another number of values than keys, no array for a key, or something
        that is not an NDArray.
    """
    if not isinstance(keys, (list, tuple)):
        key = as_key(keys)
        return [(key, _arrays(key, values, what))]
    wanted = [as_key(key) for key in keys]
    if len({type(key) for key in wanted}) > 1:
        raise ArgumentError(f"[KVStore] inconsistent types of keys detected: {list(keys)!r}")
    if not isinstance(values, (list, tuple)) or len(values) != len(wanted):
        got = f"{len(values)}" if isinstance(values, (list, tuple)) else type(values).__name__
        raise ArgumentError(f"[KVStore] {what}: expected {len(wanted)}, one per key, got {got}")
    grouped: dict[Key, list[NDArray]] = {}
    for key, value in zip(wanted, values, strict=True):
        grouped.setdefault(key, []).extend(_arrays(key, value, what))
    return list(grouped.items())


def _arrays(key: Key, value: Any, what: str) -> list[NDArray]:
    if isinstance(value, NDArray):
        return [value]
    arrays: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    if not arrays:
        raise ArgumentError(f"[KVStore] key {key!r}: {what}: expected at least one NDArray, got none")
    for array in arrays:
        if not isinstance(array, NDArray):
            raise ArgumentError(
                f"[KVStore] key {key!r}: {what}: expected NDArrays, got {type(array).__name__}"
            )
    return list(arrays)
