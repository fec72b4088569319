# SPDX-License-Identifier: Apache-2.0
"""Running sums."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core import dtypes
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, Types, opt
from mx_operators.array.join import checked_axis
from mx_operators.nn.base import wide


class CumsumParam(Params):
    """Where, in which type."""

    axis: int | None = opt(None, "axis along which is summed; None: the flattened array")
    dtype: str | None = opt(
        None,
        "type of the result; None: as a",
        choices=("float16", "float32", "float64", "int32", "int64", "int8", None),
    )


class Cumsum(Operator[CumsumParam]):
    """output[i] = a[0] + … + a[i] along an axis, or over all elements in their order."""

    name = "_np_cumsum"
    aliases = ("cumsum",)
    arguments = ("a",)

    def infer_shape(self, p: CumsumParam, s: Shapes) -> None:
        """As a, or flat."""
        a = s.get("a")
        if p.axis is not None:
            if a is not None:
                checked_axis(p.axis, len(a), s)
            s.unify(["a", "output"])
        elif a is not None:
            s.assign("output", (-1 if -1 in a else prod(a),))

    def infer_type(self, p: CumsumParam, t: Types) -> None:
        """From the parameter, or as a."""
        t.assign("output", p.dtype if p.dtype is not None else t.get("a"))

    def reference(self, p: CumsumParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """NumPy's cumsum, in the type of the result."""
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype)) if p.dtype else inputs[0].dtype
        x = inputs[0].astype(dtype)
        return (np.cumsum(wide(x), p.axis, dtype=wide(x).dtype).astype(dtype),)

    def backward(self, p: CumsumParam, out_grad: Array, a: ShapeOnly) -> Array:
        """Running sums from the other end."""
        axis = 0 if p.axis is None else p.axis
        summed = np.flip(np.cumsum(np.flip(out_grad, axis), axis, dtype=out_grad.dtype), axis)
        return summed.reshape(a.shape)
