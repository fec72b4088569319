# SPDX-License-Identifier: Apache-2.0
"""Values of several keys in one message: behind each other, filled up to multiples of 64 bytes.

What is told of a value that is not dense has its `storage`, a number of `mx_kvstore.storage`, and `indices`: bytes of
its rows' numbers, which are int64 and lie before the rows as a value of their own. Servers keep dense values so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_kvstore.storage import DEFAULT, name_of
from mx_kvstore_ray.errors import ProtocolError

Bytes = npt.NDArray[np.uint8]

_ALIGNED = 64


def aligned(size: int) -> int:
    """How far the next value is from the begin of one of `size` bytes."""
    return -(-size // _ALIGNED) * _ALIGNED


def check_dense(rank: int, told: Mapping[str, Any]) -> None:
    """Refuses a value of which a worker tells that it is not dense.

    Raises
    ------
    ProtocolError
    """
    storage = told.get("storage", DEFAULT)
    if storage == DEFAULT:
        return
    kind = name_of(storage) if isinstance(storage, int) else None
    called = f"a value of storage type {storage!r}, which is none," if kind is None else f"a {kind} value"
    raise ProtocolError(
        f"[KVStore] worker {rank} sent {called} of key {told['key']!r}; servers keep dense values only"
    )


def packed(values: Sequence[Bytes]) -> Bytes | None:
    """The values as one array; a single one is not copied, and without any it is None."""
    if len(values) < 2:
        return values[0] if values else None
    found = np.empty(sum(aligned(value.nbytes) for value in values), np.uint8)
    at = 0
    for value in values:
        found[at : at + value.nbytes] = value
        at += aligned(value.nbytes)
    return found
