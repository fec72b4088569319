# SPDX-License-Identifier: Apache-2.0
"""Count sketch.

Source: Charikar, Chen, Farach-Colton, Finding Frequent Items in Data Streams, ICALP 2002; Pham and
Pagh, Fast and Scalable Polynomial Kernels via Explicit Feature Maps, KDD 2013.
"""

from __future__ import annotations

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import wide


class CountSketchParam(Params):
    """Extent of the sketch."""

    out_dim: int = required("extent of the sketch", lower=1)
    processing_batch_size: int = opt(32, "accepted for compatibility: rows at a time", lower=1)


class CountSketch(Operator[CountSketchParam]):
    """data (…, d) summed into (…, out_dim): element i goes to place h[i] with sign s[i].

    h (1, d) has integers from 0 to out_dim − 1, s (1, d) −1 and 1.
    """

    name = "_contrib_count_sketch"
    arguments = ("data", "h", "s")
    without_gradient = ("h", "s")

    def infer_shape(self, p: CountSketchParam, s: Shapes) -> None:
        """One hash and one sign per element."""
        data = s.get("data")
        if data is None:
            return
        if len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")
        for name in ("h", "s"):
            s.assign(name, (1, data[-1]))
        s.assign("output", (*data[:-1], p.out_dim))

    def reference(self, p: CountSketchParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Signed elements added up by place."""
        data, sign = wide(inputs[0]), inputs[2].reshape(-1)
        sketch = np.zeros((p.out_dim, *data.shape[:-1]), data.dtype)
        np.add.at(sketch, _places(inputs[1], p), np.moveaxis(data * sign, -1, 0))
        return (np.moveaxis(sketch, 0, -1).astype(inputs[0].dtype),)

    def backward(self, p: CountSketchParam, out_grad: Array, data: ShapeOnly, h: Array, s: Array) -> Array:
        """Signed elements taken from their places."""
        return out_grad[..., _places(h, p)] * s.reshape(-1)


def _places(h: Array, p: CountSketchParam) -> Array:
    places = h.reshape(-1).astype(np.int64)
    wrong = places[(places < 0) | (places >= p.out_dim)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"[_contrib_count_sketch] h: expected 0 to {p.out_dim - 1}, got {wrong[0]}"
        )
    return places
