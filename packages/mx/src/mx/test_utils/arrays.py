# SPDX-License-Identifier: Apache-2.0
"""Arrays and shapes to test with. Random ones follow NumPy's global generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx.test_utils.compare import host
from mx.test_utils.surroundings import default_context, default_dtype
from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd

Shape = tuple[int, ...]


def random_arrays(*shapes: Shape) -> Any:
    """Arrays of standard normal numbers in the default type; a single one comes alone."""
    made = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return made[0] if len(made) == 1 else made


def random_uniform_arrays(
    *shapes: Shape, low: float = 0.0, high: float = 1.0, dtype: Any = None
) -> list[np.ndarray[Any, Any]]:
    """Arrays of numbers uniform in [low, high), in the default type."""
    kind = default_dtype() if dtype is None else dtype
    return [np.random.uniform(low, high, shape).astype(kind) for shape in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """k different elements, in the order of the population."""
    chosen = sorted(random.sample(range(len(population)), k))
    return [population[i] for i in chosen]


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> Shape:
    """Extents from 1 (or 0) to `dim`."""
    low = 0 if allow_zero_size else 1
    return tuple(np.random.randint(low, dim + 1, size=num_dim).tolist())


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> Shape:
    """Two extents from 1 (or 0) to `dim0` and `dim1`."""
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, dim + 1)) for dim in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> Shape:
    """Three extents from 1 (or 0) to `dim0`, `dim1` and `dim2`."""
    return rand_shape_2d(dim0, dim1, allow_zero_size) + rand_shape_2d(dim2, 1, allow_zero_size)[:1]


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """A point: each coordinate from low to below high."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def rand_ndarray(
    shape: Shape, stype: str = "default", density: float | None = None, dtype: Any = None,
    modifier_func: Callable[[float], float] | None = None, shuffle_csr_indices: bool = False,
    distribution: str | None = None, ctx: Context | None = None,
) -> NDArray:  # fmt: skip
    """An array of standard normal numbers.

    Raises
    ------
    ArgumentError  a storage type other than "default"
    """
    if stype != "default":
        raise ArgumentError(f"[rand_ndarray] stype: expected 'default', got {stype!r}")
    values = np.random.normal(size=shape)
    if modifier_func is not None:
        values = assign_each(values, modifier_func)
    kind = default_dtype() if dtype is None else dtype
    return nd.array(values, ctx or default_context(), dtypes.name(dtypes.code(kind)))


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> np.ndarray[Any, Any]:
    """A function of every element."""
    values = np.array(host(the_input))
    if function is None:
        return values
    return np.array([function(x) for x in values.ravel()], values.dtype).reshape(values.shape)


def assign_each2(
    input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None
) -> np.ndarray[Any, Any]:
    """A function of every pair of elements of two arrays of one shape."""
    x, y = np.array(host(input1)), host(input2)
    if function is None:
        return x
    pairs = zip(x.ravel(), y.ravel(), strict=True)
    return np.array([function(a, b) for a, b in pairs], x.dtype).reshape(x.shape)


def np_reduce(
    dat: np.ndarray[Any, Any], axis: int | Sequence[int] | None, keepdims: bool,
    numpy_reduce_func: Callable[..., Any],
) -> Any:  # fmt: skip
    """A reduction over several axes with a function that takes one axis."""
    axes = range(dat.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    result = dat
    for one in sorted((a % dat.ndim for a in axes), reverse=True):
        result = numpy_reduce_func(result, axis=one)
        if keepdims:
            result = np.expand_dims(result, one)
    return result


def collapse_sum_like(a: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """The sum over the axes along which `shape` would broadcast to that of `a`."""
    extra = a.ndim - len(shape)
    if extra < 0 or any(n not in (1, have) for n, have in zip(shape, a.shape[extra:], strict=True)):
        raise ArgumentError(f"[collapse_sum_like] {shape} does not broadcast to {a.shape}")
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1))
    total: np.ndarray[Any, Any] = a.sum(axis=axes)
    return total.reshape(shape)


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether two arrays lie in the same memory: writing one changes the other."""
    if array1.shape != array2.shape:
        return False
    before = array1.copy()
    array1[:] += 1
    together = bool(np.array_equal(array1.asnumpy(), array2.asnumpy()))
    array1[:] = before
    return together and bool(np.array_equal(array1.asnumpy(), array2.asnumpy()))


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, … size − 1."""
    return nd.arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """A matrix whose row i is filled with i."""
    return nd.arange(0, rows, dtype=dtype).reshape((rows, 1)).broadcast_to((rows, columns))


def get_identity_mat(size: int) -> np.ndarray[Any, Any]:
    """The identity matrix in float64."""
    return np.eye(size)


def get_identity_mat_batch(size: int) -> np.ndarray[Any, Any]:
    """Two identity matrices in float64."""
    return np.stack([np.eye(size)] * 2)
