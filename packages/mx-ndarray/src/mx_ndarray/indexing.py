# SPDX-License-Identifier: Apache-2.0
"""Reading and writing `x[key]` with NumPy's rules.

Integers, slices, `...` and `None` are basic: a contiguous region is a view, others go through the
operators `slice` and `_slice_assign`. Lists, arrays and masks are advanced, see `advanced`, and gather
or scatter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mx_core import dtypes, operators
from mx_core.errors import IndexOutOfBoundsError, ShapeError
from mx_ndarray import _core
from mx_ndarray.advanced import first_axis, select
from mx_ndarray.creation import array as make_array
from mx_ndarray.creation import is_rounded
from mx_ndarray.exchange import on_device, taken
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function
from mx_ndarray.views import check_assignable, with_shape

_NUMBERS = (int, float, bool, np.number, np.bool_)
_INT64 = dtypes.code("int64")


class Region(NamedTuple):
    """A basic key, resolved: per axis of the array start, step and length; the result's shape."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    lengths: tuple[int, ...]
    shape: tuple[int, ...]

    def contiguous(self, dims: tuple[int, ...]) -> bool:
        """True when the region is one run of memory."""
        if 0 in self.lengths:
            return True
        whole = True  # every axis after this one is complete
        for axis in reversed(range(len(dims))):
            length = self.lengths[axis]
            if length > 1 and (self.steps[axis] != 1 or not whole):
                return False
            if length != dims[axis]:
                whole = False
        return True

    def offset(self, dims: tuple[int, ...]) -> int:
        """Elements before the first one."""
        position = 0
        for start, dim in zip(self.starts, dims, strict=True):
            position = position * dim + start
        return position

    def slice_arguments(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """Parameters of the operator `slice`, the same ones for all extents of axes that are taken whole."""
        starts, steps, lengths, _ = self
        ends: list[int | None] = []
        for start, step, length, dim in zip(starts, steps, lengths, dims, strict=True):
            end = start + step * length
            ends.append(None if end < 0 or (step == 1 and length == dim) else end)
        arguments: dict[str, Any] = {"begin": starts, "end": tuple(ends)}
        if steps.count(1) != len(steps):
            arguments["step"] = steps
        return arguments


def _is_basic(item: Any) -> bool:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return True
    return hasattr(item, "__index__") and not isinstance(item, (bool, np.ndarray, NDArray))


def resolve(key: Any, dims: tuple[int, ...]) -> Region | None:
    """The region of a basic key; None for an advanced one.

    Raises
    ------
    IndexOutOfBoundsError  an integer lies outside its axis, or there are too many indices
    """
    items = key if isinstance(key, tuple) else (key,)
    used, plain = 0, True  # plain: an integer or a slice for every axis
    for item in items:
        if type(item) is slice or type(item) is int:
            used += 1
        elif not _is_basic(item):
            return None
        elif item is None or item is Ellipsis:
            plain = False
        else:
            used += 1
    if not plain or used != len(dims):
        items = _expanded(key, items, used, dims)
    starts: list[int] = []
    steps: list[int] = []
    lengths: list[int] = []
    shape: list[int] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        axis = len(starts)
        dim = dims[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(dim)
            length = len(range(start, stop, step))
            shape.append(length)
            starts.append(min(start, dim) if length else 0)
        else:
            index = item.__index__()
            if not -dim <= index < dim:
                raise IndexOutOfBoundsError(
                    f"[NDArray] index {index} is out of bounds for axis {axis} with size {dim}"
                )
            step, length = 1, 1
            starts.append(index + dim if index < 0 else index)
        steps.append(step)
        lengths.append(length)
    # A single element keeps one axis, as there are no arrays without axes in this interface.
    result = tuple(shape) if shape or not dims else (1,)
    return Region(tuple(starts), tuple(steps), tuple(lengths), result)


def _expanded(key: Any, items: tuple[Any, ...], used: int, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """The items of a basic key with slices for the axes that it does not name."""
    if not dims and isinstance(key, slice) and key == slice(None):
        items, used = (), 0  # "everything" is a scalar's one element, too, as in MXNet
    if used > len(dims):
        raise IndexOutOfBoundsError(f"[NDArray] {used} indices for an array of shape {dims}")
    if items.count(Ellipsis) > 1:
        raise IndexOutOfBoundsError("[NDArray] an index can only have one ellipsis ('...')")
    fill = (slice(None),) * (len(dims) - used)
    if Ellipsis in items:
        at = items.index(Ellipsis)
        return (*items[:at], *fill, *items[at + 1 :])
    return (*items, *fill)


def get(array: NDArray, key: Any) -> NDArray:
    """`array[key]`."""
    dims = array.shape
    region = resolve(key, dims)
    if region is None:
        return _gather(array, key)
    if region.contiguous(dims):
        view = _view(array, region, region.lengths)
        if _core.is_recording() and array._recorded and view.size:
            op = operators.get("slice")
            params = op.Param.parse(region.slice_arguments(dims), op="slice")
            _core.record_view(op, params, array, view)
    else:
        view = function("slice")(array, **region.slice_arguments(dims))
    return view if region.shape == region.lengths else with_shape(view, region.shape)


def _view(array: NDArray, region: Region, shape: tuple[int, ...]) -> NDArray:
    item = dtypes.itemsize(array._dtype_code)
    return _core.view(array, region.offset(array.shape) * item, array._dtype_code, shape)


def _gather(array: NDArray, key: Any) -> NDArray:
    rows = first_axis(key, array.shape)
    if rows is not None:
        indices = _core.from_numpy(rows, _INT64, (array.context.device_typeid, array.context.device_id))
        return function("gather_nd")(array, indices)
    chosen = select(key, array.shape, array.context)
    picked = function("gather_nd")(array, chosen.indices)
    return picked if chosen.shape else with_shape(picked, (1,))


def put(array: NDArray, key: Any, value: Any) -> None:
    """`array[key] = value`, asynchronous."""
    check_assignable(array)
    recorded = _core.is_recording() and isinstance(value, NDArray) and value._recorded
    dims = array.shape
    region = resolve(key, dims)
    if region is None:
        chosen = select(key, dims, array.context)
        if 0 in chosen.shape:
            return
        if isinstance(value, _NUMBERS):
            value = _full(chosen.shape, value, array)
        part = _fitted(value, array, chosen.shape)
        function("_scatter_set_nd")(array, part, chosen.indices, shape=dims, out=array)
    elif 0 in region.lengths:
        return
    elif region.contiguous(dims) and not recorded:
        _fill(_view(array, region, region.shape), value)
    elif isinstance(value, _NUMBERS) and not is_rounded(value, array._dtype_code):
        settings = region.slice_arguments(dims)
        function("_slice_assign_scalar")(array, scalar=float(value), out=array, **settings)
    else:
        part = with_shape(_fitted(value, array, region.shape), region.lengths)
        function("_slice_assign")(array, part, out=array, **region.slice_arguments(dims))


def _fitted(value: Any, like: NDArray, shape: tuple[int, ...]) -> NDArray:
    """`value` as an array of the type of `like`, broadcast to `shape`."""
    if on_device(value) or (hasattr(value, "__dlpack__") and not hasattr(value, "__array__")):
        value = taken(value).as_in_context(like.context)
    if not isinstance(value, NDArray):
        try:
            host = np.asarray(value, dtypes.numpy_dtype(like._dtype_code))
        except (TypeError, ValueError):
            raise TypeError(f"[NDArray] cannot assign {value!r}: expected numbers or arrays") from None
        extra = max(0, host.ndim - len(shape))
        try:
            fitted = host.reshape(host.shape[extra:]) if set(host.shape[:extra]) == {1} else host
            return make_array(np.broadcast_to(fitted, shape), like.context, like.dtype)
        except ValueError:
            raise ShapeError(f"[NDArray] cannot assign shape {host.shape} to {shape}") from None
    given: NDArray = value.astype(like.dtype, copy=False)
    if given.shape == shape:
        return given
    extra = given.ndim - len(shape)
    if extra > 0 and all(d == 1 for d in given.shape[:extra]):
        given = with_shape(given, given.shape[extra:])
    elif extra < 0:
        given = with_shape(given, (1,) * -extra + given.shape)
    return given if given.shape == shape else given.broadcast_to(shape)


def _fill(target: NDArray, value: Any) -> None:
    """All of `target` from a number or something that broadcasts to its shape."""
    if target.size == 0:
        return
    if isinstance(value, _NUMBERS):
        _full(target.shape, value, target, target)
        return
    _core.copy(_fitted(value, target, target.shape), target)


def _full(shape: tuple[int, ...], value: Any, like: NDArray, out: NDArray | None = None) -> NDArray:
    """A number everywhere, of the type and context of `like`."""
    if is_rounded(value, like._dtype_code):
        made = make_array(np.full(shape, value, like.dtype), like.context, like.dtype)
        if out is not None:
            _core.copy(made, out)
        return made
    settings = {"shape": shape, "dtype": dtypes.name(like._dtype_code), "ctx": like.context, "out": out}
    return function("_full")(value=float(value), **settings)
