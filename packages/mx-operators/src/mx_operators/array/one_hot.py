# SPDX-License-Identifier: Apache-2.0
"""Indices as vectors: one_hot."""

from __future__ import annotations

import numpy as np

from mx_core import dtypes
from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt, required
from mx_operators.array.indices import integers


class OneHotParam(Params):
    """Classes and values."""

    depth: int = required("extent of the new axis", lower=0)
    on_value: float = opt(1.0, "where the index points", runtime=True)
    off_value: float = opt(0.0, "elsewhere", runtime=True)
    dtype: str = opt("float32", "type of the result")


class OneHot(Operator[OneHotParam]):
    """indices (…) give (…, depth): on_value at the index, off_value elsewhere; outside, nowhere."""

    name = "one_hot"
    arguments = ("indices",)
    differentiable = False

    def infer_shape(self, p: OneHotParam, s: Shapes) -> None:
        indices = s.get("indices")
        if indices is not None:
            s.assign("output", (*indices, p.depth))

    def infer_type(self, p: OneHotParam, t: Types) -> None:
        t.assign("output", p.dtype)
        if t.get("indices") is None:
            t.assign("indices", "float32")

    def reference(self, p: OneHotParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        hit = integers(inputs[0])[..., None] == np.arange(p.depth)
        return (np.where(hit, p.on_value, p.off_value).astype(dtypes.numpy_dtype(dtypes.code(p.dtype))),)
