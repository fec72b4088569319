# SPDX-License-Identifier: Apache-2.0
"""One element of every row, chosen by an index: filled, or marked with 1."""

from __future__ import annotations

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Arrays, NoParams, Operator, ReferenceContext, Shapes


class OneHotEncode(Operator):
    """1 at (i, lhs[i]), 0 elsewhere, in the shape of rhs; an index outside marks nothing."""

    name = "_onehot_encode"
    arguments = ("lhs", "rhs")
    shape_only = ("rhs",)
    differentiable = False

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """lhs (N,), rhs (N, K)."""
        s.unify(["rhs", "output"])
        rhs = s.get("rhs")
        if rhs is not None:
            if len(rhs) != 2:
                raise s.error(f"rhs: expected 2 dimensions, got {rhs}")
            s.assign("lhs", rhs[:1])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A comparison with positions."""
        index = np.trunc(inputs[0].astype(np.float64))
        columns = np.arange(inputs[1].shape[1])
        return ((index[:, None] == columns).astype(inputs[1].dtype),)


class FillElement(Operator):
    """lhs with lhs[i, rhs[i]] = mhs[i]."""

    name = "fill_element_0index"
    arguments = ("lhs", "mhs", "rhs")
    inplace_pairs = ((0, 0),)
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """lhs (N, K), a value and an index per row."""
        s.unify(["lhs", "output"])
        s.unify(["mhs", "rhs"])
        lhs = s.get("lhs")
        if lhs is not None:
            if len(lhs) != 2:
                raise s.error(f"lhs: expected 2 dimensions, got {lhs}")
            s.assign("mhs", lhs[:1])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """An assignment by row."""
        result = inputs[0].copy()
        index = np.trunc(inputs[2].astype(np.float64))
        outside = ~((index >= 0) & (index < result.shape[1]))
        if outside.any():
            raise IndexOutOfBoundsError(
                f"[{self.name}] rhs: expected 0 to {result.shape[1] - 1}, got {index[outside][0]:g}"
            )
        result[np.arange(len(result)), index.astype(np.int64)] = inputs[1]
        return (result,)
