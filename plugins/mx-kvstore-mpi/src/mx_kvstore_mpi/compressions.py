# SPDX-License-Identifier: Apache-2.0
"""How workers compress gradients, as numbers that they compare: all of a store must do the same."""

from __future__ import annotations

import numpy as np

from mx_kvstore.compression import Compression

#: what stands for gradients that are not compressed
NONE = 0


def mark(how: Compression | None) -> int:
    """A number that tells compressions apart; none of them is negative."""
    if how is None:
        return NONE
    return how.bits << 32 | int(np.float32(how.threshold).view(np.uint32))


def described(number: int) -> str:
    """What a mark stands for, such as `2bit with threshold 0.5`."""
    if number == NONE:
        return "none"
    threshold = float(np.uint32(number & 0xFFFFFFFF).view(np.float32))
    return f"{number >> 32}bit with threshold {threshold:g}"


def differ(called: str, one: str, first: int, other: str, second: int) -> str:
    """The message when two workers differ."""
    return (
        f"[KVStore.set_gradient_compression] {called}: the compression of {one} is {described(first)}, that of {other} "
        f"{described(second)}; all workers must set the same one, between the same pushes"
    )
