# SPDX-License-Identifier: Apache-2.0
"""Rows chosen by a mask."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, opt


class BooleanMaskParam(Params):
    """Axis."""

    axis: int = opt(0, "the axis that is masked; only the first one", lower=0, upper=0)


class BooleanMask(Operator[BooleanMaskParam]):
    """The rows of data (N, …) where index (N,) is not zero: (n, …), n known when it has run."""

    name = "_contrib_boolean_mask"
    aliases = ("_npi_boolean_mask",)
    arguments = ("data", "index")
    without_gradient = ("index",)
    free_types = {"index": "data"}
    dynamic_output = True

    def infer_shape(self, p: BooleanMaskParam, s: Shapes) -> None:
        data = s.get("data")
        if data is None:
            return
        if not data:
            raise s.error("data: expected at least 1 dimension, got ()")
        s.assign("index", data[:1])
        s.assign("output", (-1, *data[1:]))

    def reference(self, p: BooleanMaskParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0][inputs[1] != 0],)

    def backward(self, p: BooleanMaskParam, out_grad: Array, data: ShapeOnly, index: Array) -> Array:
        """Back to the rows they came from."""
        grad = np.zeros(data.shape, out_grad.dtype)
        grad[index != 0] = out_grad
        return grad
