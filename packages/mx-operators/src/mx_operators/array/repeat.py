# SPDX-License-Identifier: Apache-2.0
"""Elements repeated: repeat, tile."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_operators.array.join import checked_axis


class RepeatParam(Params):
    """How often, where."""

    repeats: int = required("how often each element appears", lower=0)
    axis: int | None = opt(None, "the axis; None: of the flattened array")


class Repeat(Operator[RepeatParam]):
    """Every element repeated in place."""

    name = "repeat"
    linear = True

    def infer_shape(self, p: RepeatParam, s: Shapes) -> None:
        data = s.known("data")
        if data is None:
            return
        if p.axis is None:
            s.assign("output", (int(np.prod(data)) * p.repeats,))
            return
        axis = checked_axis(p.axis, len(data), s)
        s.assign("output", (*data[:axis], data[axis] * p.repeats, *data[axis + 1 :]))

    def reference(self, p: RepeatParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.repeat(inputs[0], p.repeats, p.axis),)

    def backward(self, p: RepeatParam, out_grad: Array, data: ShapeOnly) -> Array:
        if p.axis is None:
            return out_grad.reshape(*data.shape, p.repeats).sum(-1)
        axis = p.axis % data.ndim
        runs = out_grad.reshape(*data.shape[: axis + 1], p.repeats, *data.shape[axis + 1 :])
        return runs.sum(axis + 1)


class TileParam(Params):
    """How often per axis."""

    reps: Shape = required("copies per axis", lower=0)


class Tile(Operator[TileParam]):
    """The whole array repeated."""

    name = "tile"
    linear = True

    def infer_shape(self, p: TileParam, s: Shapes) -> None:
        data = s.known("data")
        if data is not None:
            rank = max(len(data), len(p.reps))
            shape = (1,) * (rank - len(data)) + data
            reps = (1,) * (rank - len(p.reps)) + p.reps
            s.assign("output", [e * r for e, r in zip(shape, reps, strict=True)])

    def reference(self, p: TileParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.tile(inputs[0], p.reps),)

    def backward(self, p: TileParam, out_grad: Array, data: ShapeOnly) -> Array:
        rank = out_grad.ndim
        shape = (1,) * (rank - data.ndim) + data.shape
        reps = (1,) * (rank - len(p.reps)) + p.reps
        split = [x for pair in zip(reps, shape, strict=True) for x in pair]
        return out_grad.reshape(split).sum(tuple(range(0, 2 * rank, 2))).reshape(data.shape)
