# SPDX-License-Identifier: Apache-2.0
"""Gradient compression as its definition says it, one value after the other, in NumPy's float32."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]


def sent(kind: str, threshold: float, gradient: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """What is sent of a gradient, and the new residual."""
    limit = np.float32(threshold)
    with np.errstate(invalid="ignore"):
        total = residual + gradient
        if kind == "1bit":
            values = np.where(total > limit, np.float32(1), np.float32(-1))
        else:
            values = np.where(total >= limit, limit, np.where(total <= -limit, -limit, np.float32(0)))
        return values, np.where(values == 0, total, total - values).astype(np.float32)


def packed(kind: str, threshold: float, values: Floats) -> bytes:
    """The codes of values that are sent, as a text of bits that is cut into bytes."""
    if kind == "1bit":
        bits = "".join("1" if value == 1 else "0" for value in values)
    else:
        bits = "".join("11" if value > 0 else "10" if value < 0 else "00" for value in values)
    bits += "0" * (-len(bits) % 32)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
