# SPDX-License-Identifier: Apache-2.0
"""Rows replaced by index, and arrays of indices."""

from __future__ import annotations

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import (
    Array,
    Arrays,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    opt,
)


class IndexCopy(Operator):
    """old_tensor (N, …) with row index_vector[i] replaced by row i of new_tensor (n, …).

    Of rows with the same index the last one counts.
    """

    name = "_contrib_index_copy"
    arguments = ("old_tensor", "index_vector", "new_tensor")
    without_gradient = ("index_vector",)
    free_types = {"index_vector": "int64"}

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """Rows of one shape; one index per new row."""
        s.unify(["old_tensor", "output"])
        old = s.get("old_tensor")
        if old == ():
            raise s.error("old_tensor: expected at least 1 dimension, got ()")
        new, index = s.get("new_tensor"), s.get("index_vector")
        if old is not None and new is not None:
            if len(new) != len(old):
                raise s.error(f"new_tensor: expected {len(old)} dimensions as old_tensor, got {new}")
            s.assign("new_tensor", (-1, *old[1:]))
        if index is not None and len(index) != 1:
            raise s.error(f"index_vector: expected 1 dimension, got {index}")
        if new is not None:
            s.assign("index_vector", new[:1])
        elif index is not None and old is not None:
            s.assign("new_tensor", (*index, *old[1:]))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        old, index, new = inputs
        result = old.copy()
        result[_checked(index, old.shape[0])] = new
        return (result,)

    def backward(
        self,
        p: NoParams,
        out_grad: Array,
        old_tensor: ShapeOnly,
        index_vector: Array,
        new_tensor: ShapeOnly,
    ) -> Arrays:
        """Replaced rows have none; new rows get that of their place."""
        index = _checked(index_vector, old_tensor.shape[0])
        old = out_grad.copy()
        old[index] = 0
        new = out_grad[index]
        winner = dict(zip(index.tolist(), range(index.size), strict=True))
        lost = [i for i, place in enumerate(index.tolist()) if winner[place] != i]
        new[lost] = 0
        return old, new


def _checked(index: Array, rows: int) -> Array:
    places = index.astype(np.int64)
    wrong = places[(places < 0) | (places >= rows)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"[_contrib_index_copy] index_vector: expected 0 to {rows - 1}, got {wrong[0]}"
        )
    return places


class IndexArrayParam(Params):
    """Axes."""

    axes: Shape | None = opt(None, "axes whose indices are given, in this order; None: all")


class IndexArray(Operator[IndexArrayParam]):
    """For every element of data its indices along `axes`: data.shape + (number of axes,), int64."""

    name = "_contrib_index_array"
    shape_only = ("data",)
    fixed_types = {"output": "int64"}
    differentiable = False

    def infer_shape(self, p: IndexArrayParam, s: Shapes) -> None:
        data = s.get("data")
        if data is None:
            return
        for axis in p.axes or ():
            if not -len(data) <= axis < len(data):
                raise s.error(f"axes: expected −{len(data)} to {len(data) - 1}, got {p.axes}")
        s.assign("output", (*data, len(data) if p.axes is None else len(p.axes)))

    def reference(self, p: IndexArrayParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """NumPy's `indices`, the axes last."""
        grid = np.indices(inputs[0].shape, np.int64)
        chosen = grid if p.axes is None else grid[list(p.axes)]
        return (np.moveaxis(chosen, 0, -1),)
