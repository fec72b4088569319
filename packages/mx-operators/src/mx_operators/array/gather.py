# SPDX-License-Identifier: Apache-2.0
"""Elements at positions of several axes: gather_nd, scatter_nd, _scatter_set_nd."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    required,
)
from mx_operators.array.indices import nd_index


class GatherND(Operator):
    """data[indices[0], indices[1], …]: indices (M, I…) of data (S0 … SM−1, R…) give (I…, R…)."""

    name = "gather_nd"
    arguments = ("data", "indices")
    without_gradient = ("indices",)
    free_types = {"indices": "float32"}

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        data, indices = s.get("data"), s.get("indices")
        if data is None or indices is None or not indices or indices[0] < 0:
            return
        if indices[0] > len(data):
            raise s.error(f"indices {indices} index {indices[0]} axes, data {data} has {len(data)}")
        s.assign("output", (*indices[1:], *data[indices[0] :]))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Fancy indexing; without an axis to index, data everywhere."""
        data, indices = inputs
        picked = data[nd_index(indices, data.shape, self.name)]
        return (np.broadcast_to(picked, (*indices.shape[1:], *data.shape[len(indices) :])).copy(),)

    def backward(self, p: NoParams, out_grad: Array, data: ShapeOnly, indices: Array) -> Array:
        out = np.zeros(data.shape, out_grad.dtype)
        if not len(indices):  # no axis is indexed: data is repeated
            repeats = tuple(range(indices.ndim - 1))
            return np.asarray(out_grad.sum(axis=repeats, dtype=out_grad.dtype))
        np.add.at(out, nd_index(indices, out.shape, self.backward_name), out_grad)
        return out

    def backward_gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        return {"out_grad": g.op("gather_nd", (g.out_grad(), g.input("indices")))[0]}


class ScatterNDParam(Params):
    """Target."""

    shape: Shape = required("shape of the result", lower=0)


def _infer_values(p: ScatterNDParam, s: Shapes, values: str) -> None:
    """The shape of what is written, from those of the target and of the indices."""
    s.assign("output", p.shape)
    indices = s.get("indices")
    if indices is not None and indices and indices[0] >= 0:
        if indices[0] > len(p.shape):
            raise s.error(f"indices {indices} index {indices[0]} axes of shape {p.shape}")
        s.assign(values, (*indices[1:], *p.shape[indices[0] :]))


class ScatterND(Operator[ScatterNDParam]):
    """Zeros of `shape` with data written at indices; of equal indices the last one counts."""

    name = "scatter_nd"
    arguments = ("data", "indices")
    free_types = {"indices": "float32"}

    def infer_shape(self, p: ScatterNDParam, s: Shapes) -> None:
        _infer_values(p, s, "data")

    def gradient(self, p: ScatterNDParam, g: GradientBuilder) -> Gradients:
        return {"data": g.op("gather_nd", (g.out_grad(), g.input("indices")))[0]}

    def reference(self, p: ScatterNDParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        out = np.zeros(p.shape, inputs[0].dtype)
        out[nd_index(inputs[1], p.shape, self.name)] = inputs[0]
        return (out,)


class ScatterSetND(Operator[ScatterNDParam]):
    """lhs with rhs written at indices; of equal indices the last one counts."""

    name = "_scatter_set_nd"
    arguments = ("lhs", "rhs", "indices")
    inplace_pairs = ((0, 0),)
    free_types = {"indices": "float32"}

    def infer_shape(self, p: ScatterNDParam, s: Shapes) -> None:
        s.unify(["lhs", "output"])
        _infer_values(p, s, "rhs")

    def gradient(self, p: ScatterNDParam, g: GradientBuilder) -> Gradients:
        """Zero at the indices for lhs; for rhs what is there, of equal indices to each."""
        indices = g.input("indices")
        zeros = g.op("zeros_like", (g.input("rhs"),))[0]
        rest = g.op("_scatter_set_nd", (g.out_grad(), zeros, indices), params=p)[0]
        return {"lhs": rest, "rhs": g.op("gather_nd", (g.out_grad(), indices))[0]}

    def reference(self, p: ScatterNDParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        out = inputs[0].copy()
        out[nd_index(inputs[2], p.shape, self.name)] = inputs[1]
        return (out,)
