# SPDX-License-Identifier: Apache-2.0
"""Axes permuted and blocks moved: transpose, SwapAxis, reverse, depth_to_space, space_to_depth."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
    required,
)
from mx_operators.array.join import checked_axis


class TransposeParam(Params):
    """Order."""

    axes: Shape = opt((), "axis of data that each axis of the result is; () reverses")


class Transpose(Operator[TransposeParam]):
    """Axes permuted."""

    name = "transpose"

    def order(self, p: TransposeParam, rank: int, s: Shapes | None = None) -> tuple[int, ...]:
        """The permutation."""
        if not p.axes:
            return tuple(reversed(range(rank)))
        axes = tuple(a % rank if -rank <= a < rank else -1 for a in p.axes)
        if s is not None and sorted(axes) != list(range(rank)):
            raise s.error(f"axes {p.axes} are not a permutation of {rank} axes")
        return axes

    def infer_shape(self, p: TransposeParam, s: Shapes) -> None:
        data, output = s.get("data"), s.get("output")
        if data is not None:
            s.assign("output", [data[a] for a in self.order(p, len(data), s)])
        if output is not None:
            order = self.order(p, len(output), s)
            s.assign("data", [output[order.index(i)] for i in range(len(output))])

    def gradient(self, p: TransposeParam, g: GradientBuilder) -> Gradients:
        if not p.axes:
            return g.op("transpose", (g.out_grad(),))
        rank = len(p.axes)
        axes = [a % rank for a in p.axes]
        inverse = tuple(axes.index(i) if i in axes else i for i in range(rank))
        return g.op("transpose", (g.out_grad(),), axes=inverse)

    def reference(self, p: TransposeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].transpose(self.order(p, inputs[0].ndim)),)


class SwapAxisParam(Params):
    """Which two."""

    dim1: int = opt(0, "one axis")
    dim2: int = opt(0, "the other axis")


class SwapAxis(Operator[SwapAxisParam]):
    """Two axes exchanged."""

    name = "SwapAxis"
    aliases = ("swapaxes",)

    def infer_shape(self, p: SwapAxisParam, s: Shapes) -> None:
        for source, target in (("data", "output"), ("output", "data")):
            shape = s.get(source)
            if shape is not None:
                swapped = list(shape)
                a = checked_axis(p.dim1, len(shape), s, "dim1")
                b = checked_axis(p.dim2, len(shape), s, "dim2")
                swapped[a], swapped[b] = swapped[b], swapped[a]
                s.assign(target, swapped)

    def gradient(self, p: SwapAxisParam, g: GradientBuilder) -> Gradients:
        return g.op("SwapAxis", (g.out_grad(),), params=p)

    def reference(self, p: SwapAxisParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].swapaxes(p.dim1, p.dim2),)


class ReverseParam(Params):
    """Which axes."""

    axis: Shape = required("axes to reverse")


def reversed_axes(p: ReverseParam, rank: int) -> tuple[int, ...]:
    """Axes from 0; one that is named twice is reversed twice, and so not at all."""
    named = [axis % rank for axis in p.axis]
    return tuple(axis for axis in range(rank) if named.count(axis) % 2)


class Reverse(Operator[ReverseParam]):
    """Order along axes reversed."""

    name = "reverse"
    aliases = ("flip",)

    def infer_shape(self, p: ReverseParam, s: Shapes) -> None:
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            for axis in p.axis:
                checked_axis(axis, len(data), s)

    def gradient(self, p: ReverseParam, g: GradientBuilder) -> Gradients:
        return g.op("reverse", (g.out_grad(),), params=p)

    def reference(self, p: ReverseParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.flip(inputs[0], reversed_axes(p, inputs[0].ndim)),)


class BlockParam(Params):
    """Block."""

    block_size: int = required("extent of a block", lower=1)


class DepthToSpace(Operator[BlockParam]):
    """(N, C, H, W) to (N, C/b², H·b, W·b): channels laid out as b×b blocks."""

    name = "depth_to_space"

    def infer_shape(self, p: BlockParam, s: Shapes) -> None:
        data, b = s.known("data"), p.block_size
        if data is not None:
            if len(data) != 4 or data[1] % (b * b):
                raise s.error(f"data: expected (N, C, H, W) with C a multiple of {b * b}, got {data}")
            n, c, h, w = data
            s.assign("output", (n, c // (b * b), h * b, w * b))

    def gradient(self, p: BlockParam, g: GradientBuilder) -> Gradients:
        return g.op("space_to_depth", (g.out_grad(),), params=p)

    def reference(self, p: BlockParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A transpose of a reshaped view."""
        n, c, h, w = inputs[0].shape
        b = p.block_size
        view = inputs[0].reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
        return (view.reshape(n, c // (b * b), h * b, w * b),)


class SpaceToDepth(Operator[BlockParam]):
    """(N, C, H, W) to (N, C·b², H/b, W/b): the inverse of depth_to_space."""

    name = "space_to_depth"

    def infer_shape(self, p: BlockParam, s: Shapes) -> None:
        data, b = s.known("data"), p.block_size
        if data is not None:
            if len(data) != 4 or data[2] % b or data[3] % b:
                raise s.error(f"data: expected (N, C, H, W) with H, W multiples of {b}, got {data}")
            n, c, h, w = data
            s.assign("output", (n, c * b * b, h // b, w // b))

    def gradient(self, p: BlockParam, g: GradientBuilder) -> Gradients:
        return g.op("depth_to_space", (g.out_grad(),), params=p)

    def reference(self, p: BlockParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A transpose of a reshaped view."""
        n, c, h, w = inputs[0].shape
        b = p.block_size
        view = inputs[0].reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
        return (view.reshape(n, c * b * b, h // b, w // b),)
