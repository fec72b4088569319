# SPDX-License-Identifier: Apache-2.0
"""What a kernel must compute: the reference in float64, and how far results of each element type may be from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mx_core import dtypes
from mx_core.testing import progress
from mx_core.testing.case import Array, Case

#: element type -> (relative, absolute) tolerance against the reference in float64
TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "float32": (2e-4, 2e-5),
    "float16": (2e-2, 1e-2),
    "bfloat16": (6e-2, 6e-2),
}


@dataclass(frozen=True)
class Checked:
    """One comparison that was made."""

    variant: str
    dtype: str
    request: str


def tolerance_of(case: Case, dtype: str, known: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """That of the type, or of the least exact type that the operator reads: it cannot compute more exactly."""
    names = [dtype, *(dtypes.name(spec.dtype) for spec in case.specs)]
    found = [known[name] for name in names if name in known]
    return max(found, default=(0.0, 0.0))


def expected_of(case: Case) -> list[Array]:
    """The reference in float64 where the inputs are floating-point; they may decide what is drawn."""
    progress.announce(case.describe, "the reference")
    if case.op.is_random:
        return case.reference()
    results = case.reference([wide(x) if _is_floating(x) else x for x in case.inputs])
    stored = [dtypes.numpy_dtype(spec.dtype) for spec in case.outputs]
    if any(y.dtype.kind == "f" and kind.kind in "iub" for y, kind in zip(results, stored, strict=False)):
        return case.reference()  # the type of the input decides that of the output
    return results


def as_stored(wanted: Array, found: Array) -> Array:
    """What was computed in a wider type, with the limits of the type it is stored in."""
    with np.errstate(over="ignore"):
        return wide(np.asarray(wanted).astype(found.dtype))


def wide(array: Array) -> Array:
    """A floating-point array in float64; another as it is."""
    return array.astype(np.float64) if _is_floating(array) else array


def _is_floating(array: Array) -> bool:
    return dtypes.name(dtypes.code(array.dtype)) in TOLERANCES
