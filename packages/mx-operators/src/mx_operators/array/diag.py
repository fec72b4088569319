# SPDX-License-Identifier: Apache-2.0
"""Diagonals: diag."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, opt
from mx_operators.array.join import checked_axis


class DiagParam(Params):
    """Which diagonal, of which axes."""

    k: int = opt(0, "which diagonal; positive is above the main one")
    axis1: int = opt(0, "first axis")
    axis2: int = opt(1, "second axis")


class Diag(Operator[DiagParam]):
    """A diagonal of the last two (or given) axes; of a vector, the matrix with that diagonal."""

    name = "diag"

    def infer_shape(self, p: DiagParam, s: Shapes) -> None:
        data = s.known("data")
        if data is None:
            return
        if len(data) == 1:
            n = data[0] + abs(p.k)
            s.assign("output", (n, n))
            return
        a, b = checked_axis(p.axis1, len(data), s, "axis1"), checked_axis(p.axis2, len(data), s, "axis2")
        if a == b:
            raise s.error(f"axis1 and axis2 are both {a}")
        rows, columns = data[a] + min(p.k, 0), data[b] - max(p.k, 0)
        rest = tuple(e for i, e in enumerate(data) if i not in (a, b))
        s.assign("output", (*rest, max(min(rows, columns), 0)))

    def reference(self, p: DiagParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = inputs[0]
        if x.ndim == 1:
            return (np.diag(x, p.k),)
        most = max(x.shape)  # far beyond the array NumPy's pointers overflow
        return (np.diagonal(x, min(max(p.k, -most), most), p.axis1, p.axis2).copy(),)

    def backward(self, p: DiagParam, out_grad: Array, data: ShapeOnly) -> Array:
        if data.ndim == 1:
            return np.diagonal(out_grad, p.k).copy()
        out = np.zeros(data.shape, out_grad.dtype)
        view = np.moveaxis(out, (p.axis1, p.axis2), (-2, -1))
        n = out_grad.shape[-1]
        rows, columns = np.arange(n) + max(-p.k, 0), np.arange(n) + max(p.k, 0)
        view[..., rows, columns] = out_grad
        return out
