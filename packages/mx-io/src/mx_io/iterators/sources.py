# SPDX-License-Identifier: Apache-2.0
"""In-memory inputs of `NDArrayIter`: naming them, converting them, taking examples from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_io.arrays import to_numpy


def named_sources(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, Any]]:
    """(name, array) pairs from an array, a list of arrays or a mapping from names, whose order is that of the names.

    NumPy arrays become float32, as `mx.nd.array` makes them; NDArrays keep their type; both are copied. What can
    only be sliced (an h5py dataset) stays where it is.
    """
    if data is None:
        data = []
    if hasattr(data, "shape"):
        data = [data]
    if isinstance(data, list | tuple):
        if not data and not allow_empty:
            raise ArgumentError(f"[NDArrayIter] {default_name}: expected at least one array, got none")
        single = len(data) == 1
        data = {default_name if single else f"_{i}_{default_name}": array for i, array in enumerate(data)}
    elif isinstance(data, Mapping):
        data = dict(sorted(data.items(), key=lambda pair: pair[0]))
    if not isinstance(data, Mapping):
        raise DTypeError(
            f"[NDArrayIter] {default_name}: expected an array, a list of arrays or a dict, "
            f"got {type(data).__name__}"
        )
    return [(name, _source(name, array)) for name, array in data.items()]


def _source(name: str, array: Any) -> Any:
    if hasattr(array, "asnumpy"):
        if getattr(array, "stype", "default") != "default":
            raise DTypeError(
                f"[NDArrayIter] {name}: expected a dense array, got storage type {array.stype!r}"
            )
        return to_numpy(array)
    if _is_dataset(array):
        return array
    try:
        converted = np.array(array, np.float32)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"[NDArrayIter] {name}: expected numbers, got {type(array).__name__}") from error
    if converted.ndim == 0:
        raise ShapeError(f"[NDArrayIter] {name}: expected an array with a batch axis, got a number")
    return converted


def _is_dataset(array: Any) -> bool:
    return not isinstance(array, np.ndarray) and all(
        hasattr(array, a) for a in ("shape", "dtype", "__getitem__")
    )


def take(source: Any, examples: npt.NDArray[np.int64]) -> np.ndarray[Any, Any]:
    """A new array of some examples, in that order."""
    if isinstance(source, np.ndarray):
        return source[examples]
    unique, inverse = np.unique(examples, return_inverse=True)  # datasets want increasing positions
    return np.asarray(source[unique])[inverse]
