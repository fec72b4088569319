# SPDX-License-Identifier: Apache-2.0
"""Environment variables of this package."""

from __future__ import annotations

import math
import os

from mx_core.errors import ArgumentError

#: what each variable means
VARIABLES = {
    "MX_SYNC_TIMEOUT": "seconds that SyncBatchNorm of one device waits for the others; by default 120",
    "MX_VECTOR_ISA": "the instruction set of the vector loops: avx512, avx2 or baseline; by default the best",
    "MX_WINOGRAD": "0: convolutions are computed directly, never by Winograd's algorithm",
}


def sync_timeout() -> float:
    """MX_SYNC_TIMEOUT in seconds; 120 where it is not set.

    Raises
    ------
    ArgumentError  it is no positive number
    """
    text = os.environ.get("MX_SYNC_TIMEOUT", "").strip() or "120"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e6:
        raise ArgumentError(f"[MX_SYNC_TIMEOUT]: expected seconds above 0 and up to 1000000, got {text!r}")
    return value
