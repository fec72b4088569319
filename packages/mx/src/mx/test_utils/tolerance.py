# SPDX-License-Identifier: Apache-2.0
"""Tolerances of comparisons per element type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Tolerance = float | Mapping[Any, float] | None

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def _table(half: float, single: float, double: float, exact: float | None = None) -> dict[Any, float]:
    table = {np.dtype("float16"): half, np.dtype("float32"): single, np.dtype("float64"): double}
    return table if exact is None else table | {np.dtype(name): exact for name in _EXACT}


def default_rtols() -> dict[Any, float]:
    """Relative tolerance by type."""
    return _table(1e-2, 1e-4, 1e-5, 0)


def default_atols() -> dict[Any, float]:
    """Absolute tolerance by type."""
    return _table(1e-1, 1e-3, 1e-20, 0)


def default_numeric_eps() -> dict[Any, float]:
    """Step of a numeric derivative by type: a power of two, so that it is exact."""
    return _table(2.0**-6, 2.0**-9, 2.0**-14)


def effective_dtype(dat: Any) -> Any:
    """The type whose precision `dat` has."""
    return np.dtype(dat.dtype) if hasattr(dat, "dtype") else np.asarray(dat).dtype


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[Any, float]) -> float:
    """A tolerance: the given number, that of the type in a given table, or the default of the type."""
    if isinstance(tol, (int, float)):
        return tol
    dtype = effective_dtype(dat)
    given = {} if tol is None else {np.dtype(key): value for key, value in tol.items()}
    return given.get(dtype, default_tol.get(dtype, default_tol[np.dtype("float32")]))


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Relative and absolute tolerance for two values: those of the coarser type."""
    relative = max(get_tolerance(value, rtol, default_rtols()) for value in (x, y))
    absolute = max(get_tolerance(value, atol, default_atols()) for value in (x, y))
    return relative, absolute


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    """The relative tolerance, by default that of a type."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    """The absolute tolerance, by default that of a type."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """The fraction of elements that may be wrong, by default none."""
    return 0 if etol is None else etol
