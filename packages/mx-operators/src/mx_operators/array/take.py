# SPDX-License-Identifier: Apache-2.0
"""Slices and elements by index along one axis: take, pick, batch_take."""

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
    ShapeOnly,
    Shapes,
    opt,
)
from mx_operators.array.indices import bounded
from mx_operators.array.join import checked_axis


class TakeParam(Params):
    """Axis, and what happens to indices outside it."""

    axis: int = opt(0, "the axis indexed")
    mode: str = opt(
        "clip", "indices outside are limited, wrapped, or an error", choices=("clip", "raise", "wrap")
    )


class Take(Operator[TakeParam]):
    """Slices of a along an axis: a (A…, E, B…) and indices (I…) give (A…, I…, B…)."""

    name = "take"
    arguments = ("a", "indices")
    without_gradient = ("indices",)
    free_types = {"indices": "float32"}

    def infer_shape(self, p: TakeParam, s: Shapes) -> None:
        a, indices = s.get("a"), s.get("indices")
        if a is not None and indices is not None:
            axis = checked_axis(p.axis, len(a), s)
            s.assign("output", (*a[:axis], *indices, *a[axis + 1 :]))

    def reference(self, p: TakeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a, indices = inputs
        return (np.take(a, bounded(indices, a.shape[p.axis], p.mode, self.name), p.axis),)

    def backward(self, p: TakeParam, out_grad: Array, a: ShapeOnly, indices: Array) -> Array:
        """Slices added up where they were taken."""
        axis = p.axis % a.ndim
        index = bounded(indices, a.shape[axis], p.mode, self.backward_name).ravel()
        n = indices.ndim
        heads = np.moveaxis(out_grad, range(axis, axis + n), range(n))
        heads = heads.reshape(index.size, *heads.shape[n:])
        out = np.zeros((a.shape[axis], *np.delete(a.shape, axis)), heads.dtype)
        np.add.at(out, index, heads)
        return np.moveaxis(out, 0, axis)

    def backward_gradient(self, p: TakeParam, g: GradientBuilder) -> Gradients:
        return {"out_grad": g.op("take", (g.out_grad(), g.input("indices")), params=p)[0]}


class PickParam(Params):
    """Axis, shape, mode."""

    axis: int | None = opt(-1, "the axis indexed; None: of the flattened array")
    keepdims: bool = opt(False, "keep the axis with extent 1")
    mode: str = opt("clip", "indices outside are limited or wrapped", choices=("clip", "wrap"))


class Pick(Operator[PickParam]):
    """One element per row: data (…, E, …) and index (…) give (…); of one row, (1,)."""

    name = "pick"
    aliases = ("choose_element_0index",)
    arguments = ("data", "index")
    without_gradient = ("index",)
    free_types = {"index": "float32"}

    def infer_shape(self, p: PickParam, s: Shapes) -> None:
        """Forward; the index's shape follows from data."""
        data = s.get("data")
        if data is None:
            return
        if p.axis is None:
            s.assign("output", s.get("index"))
            return
        axis = checked_axis(p.axis, len(data), s)
        dropped, kept = data[:axis] + data[axis + 1 :] or (1,), (*data[:axis], 1, *data[axis + 1 :])
        s.assign("output", kept if p.keepdims else dropped)
        index = s.get("index")
        s.assign("index", dropped if index is None or len(index) != len(data) else kept)

    def reference(self, p: PickParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data, index = inputs
        if p.axis is None:
            flat = data.ravel()
            return (flat[bounded(index, flat.size, p.mode, self.name)],)
        out = np.take_along_axis(data, _along(data.shape, index, p.axis, p.mode, self.name), p.axis)
        return (out if p.keepdims or out.ndim == 1 else out.squeeze(p.axis),)

    def backward(self, p: PickParam, out_grad: Array, data: ShapeOnly, index: Array) -> Array:
        out = np.zeros(data.shape, out_grad.dtype)
        if p.axis is None:
            np.add.at(out.reshape(-1), bounded(index, out.size, p.mode, self.backward_name), out_grad)
            return out
        where = _along(data.shape, index, p.axis, p.mode, self.backward_name)
        np.put_along_axis(out, where, out_grad.reshape(where.shape), p.axis)
        return out

    def backward_gradient(self, p: PickParam, g: GradientBuilder) -> Gradients:
        return {"out_grad": g.op("pick", (g.out_grad(), g.input("index")), params=p)[0]}


def _along(shape: tuple[int, ...], index: Array, axis: int, mode: str, op: str) -> Array:
    """Indices shaped for take_along_axis."""
    where = bounded(index, shape[axis], mode, op)
    return where.reshape([1 if i == axis % len(shape) else e for i, e in enumerate(shape)])


class BatchTake(Operator):
    """a[i, indices[i]]: a (N, E) and indices (N,) give (N,)."""

    name = "batch_take"
    arguments = ("a", "indices")
    free_types = {"indices": "int32"}

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        a = s.get("a")
        if a is not None:
            if len(a) != 2:
                raise s.error(f"a: expected 2 dimensions, got {a}")
            s.assign("indices", a[:1])
            s.assign("output", a[:1])

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        kept = (g.out_grad(), g.input("a"), g.input("indices"))
        return {"a": g.op("_backward_pick", kept, axis=1)[0]}

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a, indices = inputs
        return (a[np.arange(a.shape[0]), bounded(indices, a.shape[1], "clip", self.name)],)
