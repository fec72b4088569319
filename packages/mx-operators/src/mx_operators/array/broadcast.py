# SPDX-License-Identifier: Apache-2.0
"""Axes of extent 1 repeated, and gradients summed back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
)
from mx_core.operator.declaration import P
from mx_operators.array.join import checked_axis
from mx_operators.nn.base import wide


class Unbroadcast(Operator):
    """data summed to the shape of `like`, of which only the shape is read."""

    name = "_unbroadcast"
    arguments = ("data", "like")
    shape_only = ("like",)
    inplace_pairs = ((0, 0),)
    free_types = {"like": None}

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """As like, which broadcasts to data."""
        s.unify(["like", "output"])
        data, like = s.known("data"), s.known("like")
        if data is None or like is None:
            return
        tail = data[len(data) - len(like) :]
        if len(like) > len(data) or any(b not in (1, a) for a, b in zip(tail, like, strict=True)):
            raise s.error(f"like: {like} does not broadcast to data {data}")

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        return {"data": g.op("broadcast_like", (g.out_grad(), g.input("data")))[0]}

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A sum over the repeated axes."""
        data, like = inputs
        x = wide(data)
        lead = x.ndim - like.ndim
        axes = tuple(range(lead)) + tuple(
            lead + i for i, e in enumerate(like.shape) if e == 1 and x.shape[lead + i] != 1
        )
        return (x.sum(axes).reshape(like.shape).astype(data.dtype),)


class _Broadcast(Operator[P]):
    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        first = self.arguments[0]
        return {first: g.op("_unbroadcast", (g.out_grad(), g.input(first)))[0]}

    def target(self, p: P, shapes: Sequence[tuple[int, ...]], s: Shapes) -> tuple[int, ...]:
        """Shape of the result."""
        raise NotImplementedError

    def infer_shape(self, p: P, s: Shapes) -> None:
        shapes = [shape for name in self.inputs(p) if (shape := s.get(name)) is not None]
        if len(shapes) == len(self.inputs(p)):
            s.assign("output", self.target(p, shapes, s))

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        nothing = Shapes(f"[{self.name}]", [], [])
        shape = self.target(p, [x.shape for x in inputs], nothing)
        return (np.broadcast_to(inputs[0], shape).copy(),)


class BroadcastToParam(Params):
    """Target."""

    shape: Shape = opt((), "shape of the result; 0 keeps an axis", lower=0)


class BroadcastTo(_Broadcast[BroadcastToParam]):
    """Axes of extent 1 repeated to a shape; 0 in the shape keeps an axis."""

    name = "broadcast_to"

    def target(self, p: BroadcastToParam, shapes: Sequence[tuple[int, ...]], s: Shapes) -> tuple[int, ...]:
        """The parameter, zeros filled in."""
        data = shapes[0]
        if len(p.shape) != len(data):
            raise s.error(f"shape: expected {len(data)} sizes for data {data}, got {p.shape}")
        for size, wanted in zip(data, p.shape, strict=True):
            if wanted and size not in (1, wanted, -1):
                raise s.error(f"cannot broadcast {data} to {p.shape}")
        return tuple(wanted or size for size, wanted in zip(data, p.shape, strict=True))


class BroadcastAxisParam(Params):
    """Which axes to which extents."""

    axis: Shape = opt((), "axes of extent 1 to repeat")
    size: Shape = opt((), "their new extents", lower=0)


class BroadcastAxis(_Broadcast[BroadcastAxisParam]):
    """Given axes of extent 1 repeated to given extents."""

    name = "broadcast_axis"
    aliases = ("broadcast_axes",)

    def target(self, p: BroadcastAxisParam, shapes: Sequence[tuple[int, ...]], s: Shapes) -> tuple[int, ...]:
        data = list(shapes[0])
        if len(p.axis) != len(p.size):
            raise s.error(f"axis {p.axis} and size {p.size} differ in length")
        for axis, size in zip(p.axis, p.size, strict=True):
            place = checked_axis(axis, len(data), s)
            if data[place] not in (1, -1):
                raise s.error(f"axis {axis} of {tuple(shapes[0])} has extent {data[place]}, expected 1")
            data[place] = size
        return tuple(data)


class BroadcastLikeParam(Params):
    """Which axes follow which."""

    lhs_axes: Shape | None = opt(None, "axes of lhs; None: all")
    rhs_axes: Shape | None = opt(None, "axes of rhs they follow")


class BroadcastLike(_Broadcast[BroadcastLikeParam]):
    """lhs repeated to the extents of rhs, of which only the shape is read."""

    name = "broadcast_like"
    arguments = ("lhs", "rhs")
    shape_only = ("rhs",)
    free_types = {"rhs": None}

    def target(self, p: BroadcastLikeParam, shapes: Sequence[tuple[int, ...]], s: Shapes) -> tuple[int, ...]:
        lhs, rhs = shapes
        if p.lhs_axes is None:
            if len(lhs) > len(rhs):
                raise s.error(f"cannot broadcast lhs {lhs} to rhs {rhs}")
            wanted = list(rhs)
            have = (1,) * (len(rhs) - len(lhs)) + tuple(lhs)
        else:
            wanted, have = list(lhs), tuple(lhs)
            if not p.lhs_axes:
                raise s.error("lhs_axes: expected at least one axis, got (); None is all")
            if len(p.lhs_axes) != len(p.rhs_axes or ()):
                raise s.error(f"lhs_axes {p.lhs_axes} and rhs_axes {p.rhs_axes} differ in length")
            for a, b in zip(p.lhs_axes, p.rhs_axes or (), strict=True):
                wanted[checked_axis(a, len(lhs), s, "lhs_axes")] = rhs[
                    checked_axis(b, len(rhs), s, "rhs_axes")
                ]
        for size, target in zip(have, wanted, strict=True):
            if size not in (1, target, -1) and target != -1:
                raise s.error(f"cannot broadcast lhs {lhs} to rhs {rhs}")
        return tuple(wanted)
