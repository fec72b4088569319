# SPDX-License-Identifier: Apache-2.0
"""Keys with lists, arrays and masks as indices for `gather_nd` and `_scatter_set_nd`.

The rules are NumPy's: index arrays are broadcast together; their axes stand where they stood if
they are neighbours, else first. Values of NDArrays in a key are not looked at here, except those of
masks, whose sums decide the shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mx_core.context import Context
from mx_core.errors import IndexOutOfBoundsError
from mx_ndarray.creation import array as make_array
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function
from mx_ndarray.views import with_shape

Index = Any  # a slice, None, ..., a NumPy array of integers, positions of a mask, or an NDArray


@dataclass(frozen=True)
class Selection:
    """What an advanced key selects.

    Attributes
    ----------
    indices : NDArray
        (axes, …): where the elements lie along the leading axes, complete along the others.
    shape : tuple of int
        Of the result.
    """

    indices: NDArray
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Item:
    """One part of a key and the axis it indexes.

    `None` as index stands for a new axis, `...` for no axis: it only keeps its neighbours apart.
    """

    axis: int
    index: Index

    @property
    def advanced(self) -> bool:
        return self.takes_axis and not isinstance(self.index, slice)

    @property
    def takes_axis(self) -> bool:
        return self.index is not None and self.index is not Ellipsis


def select(key: Any, dims: tuple[int, ...], context: Context) -> Selection:
    """The elements of an array of shape `dims` that an advanced key names.

    Raises
    ------
    IndexOutOfBoundsError
        An index on the host lies outside its axis, there are too many, or they do not fit together.
        Indices in NDArrays are checked when they are used.
    """
    items = _items(key, dims)
    while isinstance(items[-1].index, slice) and items[-1].index == slice(None):
        items.pop()
    used = sum(item.takes_axis for item in items)
    advanced = [k for k, item in enumerate(items) if item.advanced]
    block = _broadcast_shape([items[k].index for k in advanced])
    together = advanced == list(range(advanced[0], advanced[-1] + 1))
    place = advanced[0] if together else 0  # of the block among the axes of the result
    shape: list[int] = []
    parts: dict[int, Index] = {}
    sliced: list[tuple[int, int, range]] = []  # axis, its place in the result, what is taken of it
    for k, item in enumerate(items):
        if k == (advanced[0] if together else 0):
            place = len(shape)
            shape.extend(block)
        if item.advanced:
            continue
        if isinstance(item.index, slice):
            taken = range(*item.index.indices(dims[item.axis]))
            sliced.append((item.axis, len(shape), taken))
            shape.append(len(taken))
        elif item.index is None:
            shape.append(1)
    for axis, at, taken in sliced:
        parts[axis] = np.array(taken, np.int64).reshape((-1, *(1,) * (len(shape) - at - 1)))
    behind = len(shape) - place - len(block)
    for k in advanced:
        index = _checked(items[k].index, dims[items[k].axis], items[k].axis)
        own = tuple(np.shape(index)) if not isinstance(index, NDArray) else index.shape
        fitted = (*own, *(1,) * behind)
        parts[items[k].axis] = _reshaped(index, fitted)
    rows = [parts[axis] for axis in range(used)]
    return Selection(_stacked(rows, tuple(shape), context), (*shape, *dims[used:]))


def first_axis(key: Any, dims: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """A fast path of `select` for the most common key: one list or array of integers on the host.

    Returns
    -------
    ndarray or None
        int64 (1, …), from 0; None for other keys and for indices that are out of bounds.
    """
    if type(key) not in (list, np.ndarray) or not dims:
        return None
    try:
        index = np.asarray(key)
    except (TypeError, ValueError):  # uneven lists, or arrays in them
        return None
    if index.dtype.kind not in "iu" or not index.size or not index.ndim:
        return None
    extent = dims[0]
    low = int(index.min())
    if low < -extent or int(index.max()) >= extent:
        return None
    rows = np.array(index[None], np.int64, order="C")
    return np.where(rows < 0, rows + extent, rows) if low < 0 else rows


def _items(key: Any, dims: tuple[int, ...]) -> list[_Item]:
    """The key's parts in order, every axis of the array named once, masks as positions."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        parts.extend(_plain(part))
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > len(dims):
        raise IndexOutOfBoundsError(f"[NDArray] {used} indices for an array of shape {dims}")
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexOutOfBoundsError("[NDArray] an index can only have one ellipsis ('...')")
    fill: list[Any] = [slice(None)] * (len(dims) - used) or [Ellipsis]
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    items: list[_Item] = []
    axis = 0
    for part in [*parts[:at], *fill, *parts[at + 1 :]]:
        items.append(_Item(axis, part))
        axis += items[-1].takes_axis
    for item in items:
        _check_mask_length(item, dims)
    return items


@dataclass(frozen=True)
class _MaskRow:
    """Positions along one axis of a mask, and how long the mask was there."""

    positions: np.ndarray[Any, np.dtype[np.int64]]
    length: int


def _plain(part: Any) -> list[Any]:
    """A part of a key as slices, integers, arrays of integers; one for each axis of a mask."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return [part]
    if isinstance(part, NDArray):
        if part.dtype not in (np.bool_, np.uint64):  # which operators' int64 cannot hold
            return [part]
        part = part.asnumpy()
    if isinstance(part, (bool, np.bool_)):
        part = int(part)  # as in MXNet: a number from 0, while a mask has axes
    try:
        values = np.asarray(part)
    except ValueError as error:
        raise IndexOutOfBoundsError(f"[NDArray] {part!r} is no index: {error}") from None
    if values.dtype == np.bool_:
        rows = np.nonzero(values)
        return [_MaskRow(row, length) for row, length in zip(rows, values.shape, strict=True)]
    if values.dtype.kind not in "iuf" or (values.dtype.kind == "f" and values.size and values.ndim == 0):
        raise IndexOutOfBoundsError(
            f"[NDArray] expected integers, slices, None, ..., lists, arrays or masks as indices, got {part!r}"
        )
    if values.dtype.kind != "i":
        beyond = ~((values >= -(2.0**63)) & (values < 2.0**63))  # NaN, too
        if beyond.any():
            raise IndexOutOfBoundsError(
                f"[NDArray] index {values[beyond].flat[0]} is out of bounds for any axis"
            )
    return [values.astype(np.int64)]


def _check_mask_length(item: _Item, dims: tuple[int, ...]) -> None:
    if isinstance(item.index, _MaskRow) and item.index.length != dims[item.axis]:
        raise IndexOutOfBoundsError(
            f"[NDArray] a mask of {item.index.length} elements along axis {item.axis}, which has "
            f"{dims[item.axis]}"
        )


def _shape_of(index: Index) -> tuple[int, ...]:
    return index.positions.shape if isinstance(index, _MaskRow) else tuple(index.shape)


def _broadcast_shape(indices: list[Index]) -> tuple[int, ...]:
    shapes = [_shape_of(index) for index in indices]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = ", ".join(map(str, shapes))
        raise IndexOutOfBoundsError(f"[NDArray] indices of shapes {text} do not fit together") from None


def _checked(index: Index, extent: int, axis: int) -> Index:
    """Host indices from 0; those of NDArrays as they are, for operators count from the end as well."""
    if isinstance(index, NDArray):
        return index
    if isinstance(index, _MaskRow):
        return index.positions
    wrong = (index < -extent) | (index >= extent)
    if wrong.any():
        raise IndexOutOfBoundsError(
            f"[NDArray] index {index[wrong].flat[0]} is out of bounds for axis {axis} with size {extent}"
        )
    return np.where(index < 0, index + extent, index)


def _reshaped(index: Index, shape: tuple[int, ...]) -> Index:
    return with_shape(index, shape) if isinstance(index, NDArray) else index.reshape(shape)


def _stacked(rows: list[Index], shape: tuple[int, ...], context: Context) -> NDArray:
    """One row of indices per axis, broadcast to the result's shape."""
    if 0 in shape:  # which `broadcast_to` would take for "as it is"
        return make_array(np.zeros((len(rows), *shape)), context, np.int64)
    if not any(isinstance(row, NDArray) for row in rows):
        return make_array(np.stack([np.broadcast_to(row, shape) for row in rows]), context, np.int64)
    made = []
    for row in rows:
        index = row if isinstance(row, NDArray) else make_array(row, context, np.int64)
        index = index.as_in_context(context).detach()
        if len(rows) > 1:
            index = index.astype(np.int64, copy=False)
        missing = (1,) * (len(shape) - index.ndim)
        index = with_shape(index, (*missing, *index.shape))
        made.append(index if index.shape == shape else function("broadcast_to")(index, shape=shape))
    if len(made) == 1:
        return with_shape(made[0], (1, *shape))
    return function("stack")(*made, axis=0)
