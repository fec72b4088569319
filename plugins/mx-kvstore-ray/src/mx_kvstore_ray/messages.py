# SPDX-License-Identifier: Apache-2.0
"""Values of several keys in one message: behind each other, filled up to multiples of 64 bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_ALIGNED = 64


def aligned(size: int) -> int:
    """How far the next value is from the begin of one of `size` bytes."""
    return -(-size // _ALIGNED) * _ALIGNED


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
