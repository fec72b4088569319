# SPDX-License-Identifier: Apache-2.0
"""Elements repeated: repeat, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis
from mx_operators.backward import BackwardOfData, linear_gradient


@param
class RepeatParam:
    """How often, where."""

    repeats: int = required("how often each element appears", lower=0)
    axis: int | None = opt(None, "the axis; None: of the flattened array")


class Repeat(OperatorProperty):
    """Every element repeated in place."""

    name = "repeat"
    Param = RepeatParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.known("data")
        if data is None:
            return
        if p.axis is None:
            s.assign("output", (int(np.prod(data)) * p.repeats,))
            return
        axis = checked_axis(p.axis, len(data), s)
        s.assign("output", (*data[:axis], data[axis] * p.repeats, *data[axis + 1 :]))

    def gradient(self, p: Any, g: Any) -> Any:
        """Summed; only the shape of data is needed."""
        return g.op("_backward_repeat", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardRepeat(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's repeat."""
        return (np.repeat(inputs[0], p.repeats, p.axis),)


class BackwardRepeat(BackwardOfData):
    """Gradient of repeat."""

    name = "_backward_repeat"
    Param = RepeatParam

    def gradient(self, p: Any, g: Any) -> Any:
        """Repeated again."""
        return linear_gradient(self, p, g)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Sums of runs."""
        g, data = inputs
        if p.axis is None:
            return (g.reshape(*data.shape, p.repeats).sum(-1).astype(g.dtype),)
        axis = p.axis % data.ndim
        runs = g.reshape(*data.shape[: axis + 1], p.repeats, *data.shape[axis + 1 :])
        return (runs.sum(axis + 1).astype(g.dtype),)


@param
class TileParam:
    """How often per axis."""

    reps: Shape = required("copies per axis", lower=0)


class Tile(OperatorProperty):
    """The whole array repeated."""

    name = "tile"
    Param = TileParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.known("data")
        if data is not None:
            rank = max(len(data), len(p.reps))
            shape = (1,) * (rank - len(data)) + data
            reps = (1,) * (rank - len(p.reps)) + p.reps
            s.assign("output", [e * r for e, r in zip(shape, reps, strict=True)])

    def gradient(self, p: Any, g: Any) -> Any:
        """Summed; only the shape of data is needed."""
        return g.op("_backward_tile", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardTile(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's tile."""
        return (np.tile(inputs[0], p.reps),)


class BackwardTile(BackwardOfData):
    """Gradient of tile."""

    name = "_backward_tile"
    Param = TileParam

    def gradient(self, p: Any, g: Any) -> Any:
        """Tiled again."""
        return linear_gradient(self, p, g)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Sums of copies."""
        g, data = inputs
        rank = g.ndim
        shape = (1,) * (rank - data.ndim) + data.shape
        reps = (1,) * (rank - len(p.reps)) + p.reps
        split = [x for pair in zip(reps, shape, strict=True) for x in pair]
        total = g.reshape(split).sum(tuple(range(0, 2 * rank, 2)))
        return (total.reshape(data.shape).astype(g.dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Repeat, Tile)
