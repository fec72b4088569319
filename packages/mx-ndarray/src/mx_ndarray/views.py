# SPDX-License-Identifier: Apache-2.0
"""Other shapes of the same memory, and copies of it."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from mx_core import operators
from mx_core.context import Context
from mx_core.errors import ArgumentError, ShapeError
from mx_core.operator import Params, infer_shapes
from mx_ndarray import _core
from mx_ndarray.extents import extents
from mx_ndarray.ndarray import NDArray


@lru_cache(maxsize=1024)
def _resolved(
    shape: tuple[int, ...], target: tuple[int, ...], reverse: bool
) -> tuple[tuple[int, ...], Params]:
    op = operators.get("Reshape")
    params = op.Param.parse({"shape": target, "reverse": reverse}, op="reshape")
    _, (result,) = infer_shapes(op, params, [shape])
    if result is None or -1 in result:
        raise ShapeError(f"[reshape] cannot give shape {shape} the shape {target}")
    return result, params


def reshape(array: NDArray, args: tuple[Any, ...], **kwargs: Any) -> NDArray:
    """`NDArray.reshape`: a view, recorded as the operator it stands for."""
    if "shape" in kwargs:
        if args:
            raise TypeError("[reshape] the shape is given twice")
        args = (kwargs.pop("shape"),)
    reverse = bool(kwargs.pop("reverse", False))
    if kwargs:
        raise ArgumentError(f"[reshape] cannot find argument {next(iter(kwargs))!r}, possible "
                            "arguments: shape, reverse")  # fmt: skip
    target = extents(args[0]) if len(args) == 1 else args
    wanted = tuple(int(d.__index__()) for d in target)
    shape, params = _resolved(array.shape, wanted, reverse)
    view = _core.view(array, 0, array._dtype_code, shape)
    if _core.is_recording():
        _core.record_view(operators.get("Reshape"), params, array, view)
    return view


def shaped_like(array: NDArray, operator: str, settings: dict[str, Any]) -> NDArray:
    """A view with the shape that an operator's result would have."""
    op = operators.get(operator)
    _, (shape,) = infer_shapes(op, op.Param.parse(settings, op=operator), [array.shape])
    if shape is None:
        raise ShapeError(f"[{operator}] the shape cannot be inferred from {array.shape}")
    return with_shape(array, shape)


def with_shape(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """A view with exactly this shape, in which 0 is a size and not a code."""
    if array.size:
        return array.reshape(shape)
    return _core.view(array, 0, array._dtype_code, shape)  # nothing flows back through no elements


def copyto(array: NDArray, other: NDArray | Context) -> NDArray:
    """`NDArray.copyto`: asynchronous, across devices."""
    if isinstance(other, NDArray):
        if other is array:
            warnings.warn("[copyto] the array is copied onto itself", RuntimeWarning, stacklevel=3)
            return other
        if other.shape != array.shape:
            raise ShapeError(f"[copyto] expected shape {other.shape}, got {array.shape}")
        check_assignable(other)
        source = array if array._dtype_code == other._dtype_code else array.astype(other.dtype)
        target = other
    elif isinstance(other, Context):
        source = array
        place = (other.device_typeid, other.device_id)
        target = _core.empty(array.shape, array._dtype_code, place)
    else:
        raise TypeError(f"[copyto] expected an NDArray or a Context, got {type(other).__name__}")
    _core.copy(source, target)
    if _core.is_recording() and source._recorded:
        op = operators.get("_copyto")
        _core.record_view(op, op.Param.parse({}, op="_copyto"), source, target)
    return target


def check_assignable(array: NDArray) -> None:
    """Refuses arrays that may not be assigned to: read-only, or recorded while recording."""
    if not array.writable:
        raise ArgumentError("[NDArray] cannot assign to a read-only array")
    if array._recorded and _core.is_recording():
        from mx_core.errors import MXNetError

        raise MXNetError(
            "[NDArray] cannot assign to an array that is part of a computational graph while "
            "recording: its gradient would be wrong. Use a new array, or assign outside "
            "autograd.record() (in-place operators, out= and x[...] = y all assign)"
        )
