# SPDX-License-Identifier: Apache-2.0
"""For stores of several processes: operations of the engine on arrays that messages fill or carry away."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import dtypes, services
from mx_core.context import cpu
from mx_core.errors import DTypeError, MXNetError
from mx_kvstore import _asynchronous
from mx_kvstore._core import sum_memory
from mx_ndarray import NDArray, invoke_capsule, nd

#: elements of a value, of one dimension
Values = npt.NDArray[Any]
Done = Callable[[MXNetError | None], object]

#: types that native loops do not add, and that as which values are copied
_ADDED_BY_NUMPY = frozenset(map(dtypes.code, ("bool", "complex64", "complex128")))
_UINT8 = dtypes.code("uint8")

_engine: Any = None


def push(
    start: Callable[..., object],
    name: str,
    reads: Sequence[NDArray],
    writes: Sequence[NDArray],
    priority: int,
) -> None:
    """Pushes an operation that ends when its `done` is called.

    Parameters
    ----------
    start : callable
        (done, *values): begins it, once all arrays are computed. `values` are the memory of `reads` and `writes`, of
        one dimension, valid until `done(None)` or `done(error)`; of `reads` they are read-only.
    reads, writes : sequences of NDArray
        In main memory.
    priority : int
        Of operations that are ready, larger ones start first.
    """
    global _engine
    engine = services.engine()
    if engine is not _engine:
        _asynchronous.configure(engine.capsule, invoke_capsule())
        _engine = engine
    held = (*reads, *writes)
    types = [dtypes.numpy_dtype(array._dtype_code) for array in held]

    def begin(pending: Any, *memory: Any) -> None:
        def done(error: MXNetError | None, kept: Any = held) -> None:  # `kept`: memory lives as long as this
            _asynchronous.complete(pending, error)

        start(done, *map(_values, memory, types))

    handles = tuple(array.handle for array in reads), tuple(array.handle for array in writes)
    _asynchronous.push(begin, name, *handles, priority)


def _values(memory: memoryview, dtype: np.dtype[Any]) -> Values:
    return np.frombuffer(memory, dtype) if memory.nbytes else np.empty(0, dtype)


def in_main_memory(array: NDArray) -> NDArray:
    """The array itself, or a copy in main memory."""
    return array if array.context.device_type.startswith("cpu") else array.as_in_context(cpu())


def host_of(array: NDArray) -> NDArray:
    """The array itself if it lies in main memory, or room for its values there."""
    return array if array.context.device_type.startswith("cpu") else beside(array)


def beside(array: NDArray) -> NDArray:
    """Room for an array's values in main memory."""
    return nd.empty(array.shape, ctx=cpu(), dtype=dtypes.name(array._dtype_code))


def sums(
    codes: Sequence[int], sources: Sequence[Sequence[Values]], targets: Sequence[Sequence[Values]]
) -> None:
    """Writes to all of `targets[i]` the sum of `sources[i]`, whose elements are of the type `codes[i]`. Blocks.

    Terms are added in their order, those of 16 bits in float32; integers wrap around. One term is copied. The GIL is
    held for booleans and complex numbers only.

    Parameters
    ----------
    codes : sequence of int
        Of the element types.
    sources, targets : sequences of sequences of numpy arrays
        Those at one place have one size. A target may be a source, but must not overlap one otherwise.
    """
    native: tuple[list[int], list[list[Values]], list[list[Values]]] = ([], [], [])
    for code, terms, totals in zip(codes, sources, targets, strict=True):
        if len(terms) == 1 or code not in _ADDED_BY_NUMPY:
            native[0].append(_UINT8 if len(terms) == 1 else code)
            native[1].append([each.view(np.uint8) for each in terms])
            native[2].append([each.view(np.uint8) for each in totals])
            continue
        total = functools.reduce(np.add, terms)
        for each in totals:
            each[:] = total
    sum_memory(*native, streaming=True)


def check_compressed(key: Any, stored: NDArray) -> None:
    """Refuses what cannot be compressed.

    Raises
    ------
    DTypeError  values that are not float32
    """
    if stored.dtype is not np.float32:
        raise DTypeError(
            f"[KVStore.push] key {key!r}: gradients of float32 are compressed, got {stored.dtype.__name__}"
        )
