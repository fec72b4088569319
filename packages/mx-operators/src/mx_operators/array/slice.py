# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays: slice, slice_axis, slice_like."""

from __future__ import annotations

from collections.abc import Sequence

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
    required,
)
from mx_operators.array.join import checked_axis

Bounds = tuple[int | None, ...]


class PartParam(Params):
    """Begin, end, step per leading axis; None is open."""

    begin: Bounds = required("first index per axis; None: from the start")
    end: Bounds = required("index after the last one, per axis; None: to the end")
    step: Bounds = opt((), "step per axis; () is 1")


class SliceParam(PartParam):
    """Begin, end, step per leading axis; None is open."""

    step: Bounds = opt((), "step per axis; negative walks backwards; () is 1")


def slices(p: PartParam, shape: Sequence[int], s: Shapes | None = None) -> tuple[slice, ...]:
    """Python slices of the parameters, checked against the shape."""
    if s is not None and (len(p.begin) != len(p.end) or len(p.begin) > len(shape)):
        raise s.error(f"begin {p.begin} and end {p.end} do not fit data {tuple(shape)}")
    steps = p.step or (None,) * len(p.begin)
    if s is not None and (len(steps) != len(p.begin) or 0 in steps):
        raise s.error(f"step: expected {len(p.begin)} non-zero values, got {p.step}")
    return tuple(map(slice, p.begin, p.end, steps))


def sliced_shape(cuts: Sequence[slice], shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the part; −1 where the extent is unknown."""
    extents = [
        -1 if size < 0 else len(range(*cut.indices(size))) for cut, size in zip(cuts, shape, strict=False)
    ]
    return (*extents, *shape[len(cuts) :])


class Slice(Operator[SliceParam]):
    """data[begin[0]:end[0]:step[0], …]."""

    name = "slice"
    aliases = ("crop",)
    linear = True

    def infer_shape(self, p: SliceParam, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            s.assign("output", sliced_shape(slices(p, data, s), data))

    def reference(self, p: SliceParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0][slices(p, inputs[0].shape)],)

    def backward(self, p: SliceParam, out_grad: Array, data: ShapeOnly) -> Array:
        out = np.zeros(data.shape, out_grad.dtype)
        out[slices(p, out.shape)] = out_grad
        return out


class SliceAxisParam(Params):
    """Bounds on one axis."""

    axis: int = required("the axis")
    begin: int = required("first index")
    end: int | None = required("index after the last one; None: to the end")


class SliceAxis(Operator[SliceAxisParam]):
    """data[…, begin:end, …] on one axis."""

    name = "slice_axis"
    linear = True

    def infer_shape(self, p: SliceAxisParam, s: Shapes) -> None:
        data = s.get("data")
        if data is None:
            return
        axis = checked_axis(p.axis, len(data), s)
        if data[axis] < 0:
            s.assign("output", data)
            return
        first, last, _ = slice(p.begin, p.end).indices(data[axis])
        if first >= last:
            raise s.error(f"begin {p.begin} and end {p.end} select nothing of axis {p.axis} of {data}")
        s.assign("output", (*data[:axis], last - first, *data[axis + 1 :]))

    def part(self, p: SliceAxisParam, rank: int) -> tuple[slice, ...]:
        """An index with one slice."""
        cut = [slice(None)] * rank
        cut[p.axis] = slice(p.begin, p.end)
        return tuple(cut)

    def reference(self, p: SliceAxisParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0][self.part(p, inputs[0].ndim)],)

    def backward(self, p: SliceAxisParam, out_grad: Array, data: ShapeOnly) -> Array:
        out = np.zeros(data.shape, out_grad.dtype)
        out[self.part(p, out.ndim)] = out_grad
        return out


class SliceLikeParam(Params):
    """Which axes."""

    axes: tuple[int, ...] = opt((), "axes cut to the extent of the other; () is all")


class SliceLike(Operator[SliceLikeParam]):
    """data cut to the leading part that has the extents of shape_like."""

    name = "slice_like"
    arguments = ("data", "shape_like")
    shape_only = ("shape_like",)
    free_types = {"shape_like": None}

    def infer_shape(self, p: SliceLikeParam, s: Shapes) -> None:
        data, like = s.get("data"), s.get("shape_like")
        if data is None or like is None:
            return
        axes = [checked_axis(a, len(data), s, "axes") for a in p.axes] or range(len(data))
        if not p.axes and len(data) != len(like):
            raise s.error(f"data {data} and shape_like {like} differ in dimensions")
        out = list(data)
        for axis in axes:
            if axis >= len(like) or data[axis] < like[axis]:
                raise s.error(f"data {data} is smaller than shape_like {like} on axis {axis}")
            out[axis] = like[axis]
        s.assign("output", out)

    def gradient(self, p: SliceLikeParam, g: GradientBuilder) -> Gradients:
        return {"data": g.op("_backward_slice_like", (g.out_grad(), g.input("data")))[0]}

    def reference(self, p: SliceLikeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data, like = inputs
        axes = {a % data.ndim for a in p.axes} or set(range(data.ndim))
        return (data[tuple(slice(like.shape[a]) if a in axes else slice(None) for a in range(data.ndim))],)


class BackwardSliceLike(Operator):
    """out_grad with zeros after it, in the shape of data; without the axes of slice_like."""

    name = "_backward_slice_like"
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    shape_only = ("data",)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """As data, of which out_grad is a leading part."""
        s.unify(["data", "data_grad"])
        head, data = s.known("out_grad"), s.known("data")
        if head is None or data is None:
            return
        if len(head) != len(data) or any(a > b for a, b in zip(head, data, strict=True)):
            raise s.error(f"out_grad: {head} is no part of data {data}")

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        return g.not_differentiable()

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        out = np.zeros(inputs[1].shape, inputs[0].dtype)
        out[tuple(slice(e) for e in inputs[0].shape)] = inputs[0]
        return (out,)
