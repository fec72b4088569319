# SPDX-License-Identifier: Apache-2.0
"""`a @ b`: products of matrices with the rules of `numpy.matmul`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mx_core.errors import ShapeError
from mx_ndarray.ndarray import NDArray, operand
from mx_ndarray.operator_functions import function
from mx_ndarray.views import with_shape


def matmul(lhs: Any, rhs: Any) -> Any:
    """The product of two arrays, at least one of them an NDArray.

    Vectors and matrices are multiplied by `dot`, stacks of matrices by `batch_dot`; the axes before the
    last two are broadcast.

    Raises
    ------
    ShapeError  the shapes do not fit, or one of them has no axes
    """
    like = lhs if isinstance(lhs, NDArray) else rhs
    a, b = (x if isinstance(x, NDArray) else operand(like, x) for x in (lhs, rhs))
    if a is NotImplemented or b is NotImplemented:
        return NotImplemented
    if 0 in (a.ndim, b.ndim):
        raise ShapeError(f"[matmul] expected at least one axis, got shapes {a.shape} and {b.shape}")
    if max(a.ndim, b.ndim) <= 2:
        return function("dot")(a, b)
    rows = with_shape(a, (1, *a.shape)) if a.ndim == 1 else a
    columns = with_shape(b, (*b.shape, 1)) if b.ndim == 1 else b
    if rows.shape[-1] != columns.shape[-2]:
        raise ShapeError(f"[matmul] cannot multiply shapes {a.shape} and {b.shape}")
    result = _stacked(rows, columns)
    if a.ndim == 1 or b.ndim == 1:
        kept = (*result.shape[:-2], *(() if a.ndim == 1 else rows.shape[-2:-1]))
        return with_shape(result, (*kept, *(() if b.ndim == 1 else columns.shape[-1:])))
    return result


def _stacked(rows: NDArray, columns: NDArray) -> NDArray:
    try:
        lead = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"[matmul] the stacks of shapes {rows.shape} and {columns.shape} do not broadcast"
        ) from None
    pair = [_flat(x, lead) for x in (rows, columns)]
    product = function("batch_dot")(*pair)
    return with_shape(product, (*lead, rows.shape[-2], columns.shape[-1]))


def _flat(x: NDArray, lead: tuple[int, ...]) -> NDArray:
    """Matrices of `x`, broadcast to the stack `lead`, along one axis."""
    matrix = x.shape[-2:]
    missing = (1,) * (len(lead) + 2 - x.ndim)
    if x.shape[:-2] != lead and 0 not in (*lead, *matrix):
        x = function("broadcast_to")(with_shape(x, (*missing, *x.shape)), shape=(*lead, *matrix))
    elif x.shape[:-2] != lead:
        x = function("_zeros")(shape=(*lead, *matrix), dtype=np.dtype(x.dtype).name, ctx=x.context)
    return with_shape(x, (prod(lead), *matrix))
