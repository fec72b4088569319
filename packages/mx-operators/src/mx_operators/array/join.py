# SPDX-License-Identifier: Apache-2.0
"""Many arrays to one and back: Concat, stack, SliceChannel, add_n."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mx_core import expression as X
from mx_core.expression import Expression
from mx_core.operator import (
    Array,
    Arrays,
    Elementwise,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_core.operator.declaration import MAX_TENSORS


def checked_axis(axis: int, rank: int, s: Shapes, name: str = "axis") -> int:
    """A negative axis counted from the front; ShapeError when it does not exist."""
    if not -rank <= axis < rank:
        raise s.error(f"{name}: expected −{rank} to {rank - 1}, got {axis}")
    return axis % rank


class ConcatParam(Params):
    """How many, where."""

    num_args: int = required("how many arrays", lower=1, upper=MAX_TENSORS)
    dim: int = opt(1, "the axis along which they are put together")


class Concat(Operator[ConcatParam]):
    """Arrays put together along an existing axis."""

    name = "Concat"
    aliases: ClassVar[tuple[str, ...]] = ("concat",)
    variadic = "num_args"

    def infer_shape(self, p: ConcatParam, s: Shapes) -> None:
        """Other axes are equal; one unknown extent follows from the output."""
        names = self.inputs(p)
        known = [shape for name in (*names, "output") if (shape := s.get(name)) is not None]
        if len(known) == len(names) and s.get("output") is None and known.count(known[0]) == len(known):
            shape = known[0]
            axis = checked_axis(p.dim, len(shape), s, "dim")
            if -1 not in shape:  # the usual case: arrays of one shape
                s.assign("output", (*shape[:axis], len(names) * shape[axis], *shape[axis + 1 :]))
                return
        if not known:
            return
        rank = len(known[0])
        axis = checked_axis(p.dim, rank, s, "dim")
        for name in (*names, "output"):
            shape = s.get(name)
            if shape is not None and len(shape) != rank:
                raise s.error(f"{name}: expected {rank} dimensions, got {shape}")
        # The first that knows an extent gives it; assigning it to one with another extent raises.
        common = [next((shape[i] for shape in known if shape[i] >= 0), -1) for i in range(rank)]
        common[axis] = -1
        for name in (*names, "output"):
            shape = s.get(name)
            own = -1 if shape is None else shape[axis]
            s.assign(name, (*common[:axis], own, *common[axis + 1 :]))
        extents = [s.ranked(name)[axis] for name in names]
        total = s.ranked("output")[axis]
        if -1 not in extents:
            s.assign("output", (*common[:axis], sum(extents), *common[axis + 1 :]))
        elif extents.count(-1) == 1 and total >= 0:
            rest = total - sum(e for e in extents if e >= 0)
            s.assign(names[extents.index(-1)], (*common[:axis], rest, *common[axis + 1 :]))

    def reference(self, p: ConcatParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.concatenate(inputs, p.dim),)

    def backward(self, p: ConcatParam, out_grad: Array, inputs: Sequence[ShapeOnly]) -> Arrays:
        ends = np.cumsum([x.shape[p.dim] for x in inputs])[:-1]
        return np.split(out_grad, ends, p.dim)

    def backward_gradient(self, p: ConcatParam, g: GradientBuilder) -> Gradients:
        return {"out_grad": g.op("Concat", g.out_grads, params=p)[0]}


class StackParam(Params):
    """How many, where."""

    axis: int = opt(0, "where the new axis goes")
    num_args: int = required("how many arrays", lower=1, upper=MAX_TENSORS)


class Stack(Operator[StackParam]):
    """Arrays of one shape put together along a new axis."""

    name = "stack"
    variadic = "num_args"

    def infer_shape(self, p: StackParam, s: Shapes) -> None:
        """All inputs are equal."""
        s.unify(self.inputs(p))
        shape = s.get("arg0")
        if shape is not None:
            axis = checked_axis(p.axis, len(shape) + 1, s)
            s.assign("output", (*shape[:axis], p.num_args, *shape[axis:]))

    def gradient(self, p: StackParam, g: GradientBuilder) -> Gradients:
        return g.op("SliceChannel", (g.out_grad(),), num_outputs=p.num_args, axis=p.axis, squeeze_axis=True)

    def reference(self, p: StackParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.stack(inputs, p.axis),)


class SliceChannelParam(Params):
    """How many, where, and whether the axis stays."""

    num_outputs: int = required("pieces", lower=1, upper=MAX_TENSORS)
    axis: int = opt(1, "the axis that is cut")
    squeeze_axis: bool = opt(False, "drop the axis, whose extent is then 1")


class SliceChannel(Operator[SliceChannelParam]):
    """An array cut into equal pieces along an axis."""

    name = "SliceChannel"
    aliases = ("split",)

    def outputs(self, p: SliceChannelParam) -> tuple[str, ...]:
        return tuple([f"output{i}" for i in range(p.num_outputs)])

    def infer_shape(self, p: SliceChannelParam, s: Shapes) -> None:
        """Pieces from data and back."""
        pieces = self.outputs(p)
        s.unify(pieces)
        data, piece = s.get("data"), s.get(pieces[0])
        n = p.num_outputs
        if piece is not None:
            axis = checked_axis(p.axis, len(piece) + p.squeeze_axis, s)
            extent = n if p.squeeze_axis else piece[axis] * n if piece[axis] >= 0 else -1
            s.assign("data", (*piece[:axis], extent, *piece[axis + (not p.squeeze_axis) :]))
            data = s.get("data")
        if data is None:
            return
        axis = checked_axis(p.axis, len(data), s)
        if data[axis] >= 0 and data[axis] % n:
            raise s.error(f"data: axis {p.axis} of {data} does not divide into {n} pieces")
        extent = data[axis] // n if data[axis] >= 0 else -1
        if p.squeeze_axis and extent not in (1, -1):
            raise s.error(f"squeeze_axis: pieces of {data} along axis {p.axis} have extent {extent}")
        middle = () if p.squeeze_axis else (extent,)
        for name in pieces:
            s.assign(name, (*data[:axis], *middle, *data[axis + 1 :]))

    def gradient(self, p: SliceChannelParam, g: GradientBuilder) -> Gradients:
        if p.squeeze_axis:
            return g.op("stack", g.out_grads, num_args=p.num_outputs, axis=p.axis)
        return g.op("Concat", g.out_grads, num_args=p.num_outputs, dim=p.axis)

    def reference(self, p: SliceChannelParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        parts = np.split(inputs[0], p.num_outputs, p.axis)
        return [part.squeeze(p.axis) for part in parts] if p.squeeze_axis else parts


class SplitV2Param(Params):
    """Where to cut."""

    indices: Shape = required("first index of every piece")
    axis: int = opt(1, "the axis that is cut")
    squeeze_axis: bool = opt(False, "drop the axis, whose extent is then 1")
    sections: int = opt(0, "number of pieces, instead of indices", lower=0, upper=MAX_TENSORS)


class SplitV2(Operator[SplitV2Param]):
    """An array cut along an axis: at given indices, or into sections, the first of which are longer
    by 1 where the extent does not divide.
    """

    name = "_split_v2"

    def outputs(self, p: SplitV2Param) -> tuple[str, ...]:
        n = p.sections or len(p.indices)
        return ("output",) if n == 1 else tuple(f"output{i}" for i in range(n))

    def _ends(self, p: SplitV2Param, extent: int) -> list[tuple[int, int]]:
        if p.sections:
            size, longer = divmod(extent, p.sections)
            bounds = [i * size + min(i, longer) for i in range(p.sections + 1)]
            return list(zip(bounds[:-1], bounds[1:], strict=True))
        starts = [min(max(i + extent if i < 0 else i, 0), extent) for i in p.indices]
        return list(zip(starts, [*starts[1:], extent], strict=True))

    def infer_shape(self, p: SplitV2Param, s: Shapes) -> None:
        data = s.get("data")
        if data is None:
            return
        axis = checked_axis(p.axis, len(data), s)
        if not p.sections and not p.indices:
            raise s.error("indices: expected at least one, or sections")
        if data[axis] < 0:
            return
        ends = self._ends(p, data[axis])
        if ends[0][0] != 0 or any(last < first for first, last in ends):
            raise s.error(f"indices: expected 0 first and then no smaller ones, got {p.indices} for {data}")
        if p.squeeze_axis and any(last - first != 1 for first, last in ends):
            extents = [last - first for first, last in ends]
            raise s.error(
                f"squeeze_axis: expected pieces of extent 1, got {extents} along axis {axis} of {data}"
            )
        for name, (first, last) in zip(self.outputs(p), ends, strict=True):
            middle = () if p.squeeze_axis else (last - first,)
            s.assign(name, (*data[:axis], *middle, *data[axis + 1 :]))

    def gradient(self, p: SplitV2Param, g: GradientBuilder) -> Gradients:
        n = len(self.outputs(p))
        if p.squeeze_axis:
            return g.op("stack", g.out_grads, num_args=n, axis=p.axis)
        return g.op("Concat", g.out_grads, num_args=n, dim=p.axis)

    def reference(self, p: SplitV2Param, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = np.moveaxis(inputs[0], p.axis, 0)
        parts = [np.moveaxis(x[a:b], 0, p.axis) for a, b in self._ends(p, len(x))]
        return [part.squeeze(p.axis) for part in parts] if p.squeeze_axis else parts


class AddNParam(Params):
    """How many."""

    num_args: int = required("how many arrays", lower=1, upper=MAX_TENSORS)


class AddN(Elementwise[AddNParam]):
    """The sum of arrays of one shape."""

    name = "add_n"
    aliases = ("ElementWiseSum",)
    variadic = "num_args"

    def expression(self, p: AddNParam) -> Expression:
        """A chain of additions."""

        return X.trace(lambda *values: functools.reduce(operator.add, values), p.num_args)

    def gradient(self, p: AddNParam, g: GradientBuilder) -> Gradients:
        return [g.out_grad()] * p.num_args
