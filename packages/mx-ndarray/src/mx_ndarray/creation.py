# SPDX-License-Identifier: Apache-2.0
"""Arrays from Python and NumPy data, and arrays of constants."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError
from mx_ndarray import _core
from mx_ndarray.extents import extents
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function, served_natively

ShapeLike = int | Sequence[int]
_INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))


def is_rounded(value: Any, code: int) -> bool:
    """Whether an element type holds an integer that float64, the type of run-time scalars, does not."""
    if not isinstance(value, (int, np.integer)) or abs(int(value)) <= 2**53:
        return False
    name = dtypes.name(code)
    if name not in _INTEGERS:
        return False
    limits = np.iinfo(name)
    return int(limits.min) <= int(value) <= int(limits.max) and int(float(value)) != int(value)


def _place(ctx: Context | None) -> tuple[int, int]:
    context = current_context() if ctx is None else ctx
    return context.device_typeid, context.device_id


def _shape(shape: ShapeLike, name: str) -> tuple[int, ...]:
    """The shape as a tuple.

    Raises
    ------
    ArgumentError  it is neither an integer nor a sequence of them, or one of them is negative
    """
    try:
        made = tuple(operator.index(d) for d in extents(shape))
    except TypeError:
        raise ArgumentError(f"[{name}] shape: expected integers, got {shape!r}") from None
    if any(d < 0 for d in made):
        raise ArgumentError(f"[{name}] shape: expected no negative length, got {made}")
    return made


def _code(name: str, dtype: Any) -> int:
    """The type flag, of float32 for None; the error names the function."""
    return dtypes.code(np.float32 if dtype is None else dtype, f"[{name}] dtype")


@served_natively
def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array from numbers, lists, a NumPy array, an NDArray or an array of DLPack; a copy.

    Parameters
    ----------
    dtype : optional
        By default that of an NDArray, and float32 for everything else, NumPy arrays included.
    """
    if isinstance(source_array, NDArray):
        context = current_context() if ctx is None else ctx
        copied = source_array.copyto(context)
        return copied if dtype is None else copied.astype(dtype, copy=False)
    code = _code("array", dtype)
    try:
        values = np.asarray(source_array)
        if values.dtype == object:
            values = np.asarray(_plain(source_array))
        target = dtypes.numpy_dtype(code)
        host = np.ascontiguousarray(values.astype(target, copy=False)).reshape(values.shape)
    except (TypeError, ValueError) as error:
        if hasattr(source_array, "__dlpack__"):  # of a device, or NumPy does not know how to read it
            return _from_dlpack(source_array, ctx, code)
        hint = "; CuPy's asarray reads it" if hasattr(source_array, "__cuda_array_interface__") else ""
        raise TypeError(
            f"[array] expected numbers, nested lists of equal length or an array, got "
            f"{type(source_array).__name__}: {error}{hint}"
        ) from None
    return _core.from_numpy(host, code, _place(ctx))


def _from_dlpack(source: Any, ctx: Context | None, code: int) -> NDArray:
    from mx_ndarray import exchange

    lent = exchange.from_dlpack(source)
    return lent.copyto(current_context() if ctx is None else ctx).astype(dtypes.name(code), copy=False)


def _plain(source: Any) -> Any:
    if isinstance(source, NDArray):
        return source.asnumpy()
    return [_plain(item) for item in source] if isinstance(source, (list, tuple)) else source


@served_natively
def empty(
    shape: ShapeLike, ctx: Context | None = None, dtype: Any = None, stype: str | None = None
) -> NDArray:
    """An array whose values are undefined."""
    _expect_dense("empty", stype)
    code = _code("empty", dtype)
    return _core.empty(_shape(shape, "empty"), code, _place(ctx))


def _expect_dense(name: str, stype: str | None) -> None:
    if stype not in (None, "default"):
        raise ArgumentError(f"[{name}] stype: expected 'default', got {stype!r}: arrays are dense")


def _constant(
    name: str, shape: ShapeLike, ctx: Context | None, dtype: Any, out: NDArray | None,
    **values: Any,
) -> NDArray:  # fmt: skip
    context = current_context() if ctx is None else ctx
    settings = {"shape": _shape(shape, name), "ctx": context, "dtype": dtypes.name(_code(name, dtype))}
    return function(f"_{name}")(out=out, **settings, **values)


@served_natively
def zeros(
    shape: ShapeLike, ctx: Context | None = None, dtype: Any = None, stype: str | None = None,
    out: NDArray | None = None,
) -> NDArray:  # fmt: skip
    """Zeros; float32 by default."""
    _expect_dense("zeros", stype)
    return _constant("zeros", shape, ctx, dtype, out)


@served_natively
def ones(
    shape: ShapeLike, ctx: Context | None = None, dtype: Any = None, out: NDArray | None = None
) -> NDArray:
    """Ones; float32 by default."""
    return _constant("ones", shape, ctx, dtype, out)


@served_natively
def full(
    shape: ShapeLike, val: float, ctx: Context | None = None, dtype: Any = np.float32,
    out: NDArray | None = None,
) -> NDArray:  # fmt: skip
    """One value everywhere."""
    try:
        value = float(val)
    except (TypeError, ValueError):
        raise TypeError(f"[full] val: expected a number, got {val!r}") from None
    if is_rounded(val, code := _code("full", dtype)):
        host = np.full(_shape(shape, "full"), val, dtypes.numpy_dtype(code))
        made = _core.from_numpy(host, code, _place(ctx))
        return made if out is None else made.copyto(out)
    return _constant("full", shape, ctx, dtype, out, value=value)


@served_natively
def arange(
    start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
    infer_range: bool | None = None, ctx: Context | None = None, dtype: Any = np.float32,
) -> NDArray:  # fmt: skip
    """start, start + step, … before stop; each value `repeat` times."""
    context = current_context() if ctx is None else ctx
    if stop is None:
        start, stop = 0, start
    name = dtypes.name(_code("arange", dtype))
    return function("_arange")(start=start, stop=stop, step=step, repeat=repeat, ctx=context, dtype=name)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:  # fmt: skip
    """`num` evenly spaced values from start to stop."""
    context = current_context() if ctx is None else ctx
    name = dtypes.name(_code("linspace", dtype))
    return function("_linspace")(start=start, stop=stop, num=num, endpoint=endpoint, ctx=context, dtype=name)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Ones on diagonal `k` of an N×M matrix (N×N when M is 0)."""
    context = current_context() if ctx is None else ctx
    name = dtypes.name(_code("eye", dtype))
    return function("_eye")(N=N, M=M, k=k, ctx=context, dtype=name)


def from_numpy(ndarray: np.ndarray[Any, Any], zero_copy: bool = True) -> NDArray:
    """An array from a NumPy array, sharing its memory when `zero_copy` is set.

    The NumPy array becomes read-only when it is shared: all writes then go through the NDArray.

    Raises
    ------
    ArgumentError  zero_copy of an array that is not C-contiguous
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"[from_numpy] expected a NumPy array, got {type(ndarray).__name__}")
    code = dtypes.code(ndarray.dtype, "[from_numpy] dtype")
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    flags = ndarray.flags
    if not (flags["C_CONTIGUOUS"] and flags["ALIGNED"] and ndarray.dtype.isnative):
        raise ArgumentError(
            "[from_numpy] zero_copy needs an aligned, C-contiguous NumPy array in native byte order"
        )
    if not ndarray.flags["WRITEABLE"]:
        raise ArgumentError("[from_numpy] zero_copy needs a writable NumPy array")
    shared = _core.share_numpy(ndarray, code)
    ndarray.flags["WRITEABLE"] = False
    return shared
