# SPDX-License-Identifier: Apache-2.0
"""Axes of extent 1 repeated, and gradients summed back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis
from mx_operators.nn.base import wide


class Unbroadcast(OperatorProperty):
    """data summed to the shape of `like`, of which only the shape is read."""

    name = "_unbroadcast"
    arguments = ("data", "like")
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As like, which broadcasts to data."""
        s.unify(["like", "output"])
        data, like = s.known("data"), s.known("like")
        if data is None or like is None:
            return
        tail = data[len(data) - len(like) :]
        if len(like) > len(data) or any(b not in (1, a) for a, b in zip(tail, like, strict=True)):
            raise s.error(f"like: {like} does not broadcast to data {data}")

    def infer_type(self, p: Any, t: Any) -> None:
        """As data."""
        t.unify(["data", "output"])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """When nothing was broadcast the values stay where they are."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Broadcast again."""
        return (g.op("broadcast_like", (g.out_grad(), g.input(0)))[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A sum over the repeated axes."""
        data, like = inputs
        x = wide(data)
        lead = x.ndim - like.ndim
        axes = tuple(range(lead)) + tuple(
            lead + i for i, e in enumerate(like.shape) if e == 1 and x.shape[lead + i] != 1
        )
        return (x.sum(axes).reshape(like.shape).astype(data.dtype),)


class _Broadcast(OperatorProperty):
    def gradient(self, p: Any, g: Any) -> Any:
        """Summed back."""
        back = g.op("_unbroadcast", (g.out_grad(), g.input(0)))
        return (*back, *[None] * (len(self.inputs(p)) - 1))

    def target(self, p: Any, shapes: Sequence[Any], s: Any) -> tuple[int, ...] | None:
        """Shape of the result."""
        raise NotImplementedError

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        shapes = [s.get(name) for name in self.inputs(p)]
        if all(shape is not None for shape in shapes):
            s.assign("output", self.target(p, shapes, s))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's broadcast_to."""
        from mx_core.operator.infer import Shapes

        s = Shapes(f"[{self.name}]", [], [])
        shape: Any = self.target(p, [x.shape for x in inputs], s)
        return (np.broadcast_to(inputs[0], shape).copy(),)


@param
class BroadcastToParam:
    """Target."""

    shape: Shape = opt((), "shape of the result; 0 keeps an axis", lower=0)


class BroadcastTo(_Broadcast):
    """Axes of extent 1 repeated to a shape; 0 in the shape keeps an axis."""

    name = "broadcast_to"
    Param = BroadcastToParam

    def target(self, p: Any, shapes: Sequence[Any], s: Any) -> tuple[int, ...] | None:
        """The parameter, zeros filled in."""
        data = shapes[0]
        if len(p.shape) != len(data):
            raise s.error(f"shape: expected {len(data)} sizes for data {data}, got {p.shape}")
        for size, wanted in zip(data, p.shape, strict=True):
            if wanted and size not in (1, wanted, -1):
                raise s.error(f"cannot broadcast {data} to {p.shape}")
        return tuple(wanted or size for size, wanted in zip(data, p.shape, strict=True))


@param
class BroadcastAxisParam:
    """Which axes to which extents."""

    axis: Shape = opt((), "axes of extent 1 to repeat")
    size: Shape = opt((), "their new extents", lower=0)


class BroadcastAxis(_Broadcast):
    """Given axes of extent 1 repeated to given extents."""

    name = "broadcast_axis"
    aliases = ("broadcast_axes",)
    Param = BroadcastAxisParam

    def target(self, p: Any, shapes: Sequence[Any], s: Any) -> tuple[int, ...] | None:
        """Extents replaced."""
        data = list(shapes[0])
        if len(p.axis) != len(p.size):
            raise s.error(f"axis {p.axis} and size {p.size} differ in length")
        for axis, size in zip(p.axis, p.size, strict=True):
            place = checked_axis(axis, len(data), s)
            if data[place] not in (1, -1):
                raise s.error(f"axis {axis} of {tuple(shapes[0])} has extent {data[place]}, expected 1")
            data[place] = size
        return tuple(data)


@param
class BroadcastLikeParam:
    """Which axes follow which."""

    lhs_axes: Shape | None = opt(None, "axes of lhs; None: all")
    rhs_axes: Shape | None = opt(None, "axes of rhs they follow")


class BroadcastLike(_Broadcast):
    """lhs repeated to the extents of rhs, of which only the shape is read."""

    name = "broadcast_like"
    Param = BroadcastLikeParam
    arguments = ("lhs", "rhs")
    shape_only_inputs = frozenset((1,))

    def infer_type(self, p: Any, t: Any) -> None:
        """As lhs."""
        t.unify(["lhs", "output"])

    def target(self, p: Any, shapes: Sequence[Any], s: Any) -> tuple[int, ...] | None:
        """Extents of rhs."""
        lhs, rhs = shapes
        if p.lhs_axes is None:
            if len(lhs) > len(rhs):
                raise s.error(f"cannot broadcast lhs {lhs} to rhs {rhs}")
            wanted = list(rhs)
            have = (1,) * (len(rhs) - len(lhs)) + tuple(lhs)
        else:
            wanted, have = list(lhs), tuple(lhs)
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


OPERATORS: tuple[type[OperatorProperty], ...] = (Unbroadcast, BroadcastTo, BroadcastAxis, BroadcastLike)
