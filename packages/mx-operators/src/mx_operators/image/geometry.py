# SPDX-License-Identifier: Apache-2.0
"""Images cut and mirrored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from mx_core import philox
from mx_core.operator import (
    Array,
    Arrays,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    required,
)
from mx_operators.image.base import image


class CropParam(Params):
    """The part."""

    x: int = required("first column", lower=0)
    y: int = required("first row", lower=0)
    width: int = required("columns", lower=1)
    height: int = required("rows", lower=1)


class Crop(Operator[CropParam]):
    """The part of data (H, W, C) or (N, H, W, C) that begins at (x, y): (…, height, width, C)."""

    name = "_image_crop"
    aliases = ("_npx__image_crop",)

    def infer_shape(self, p: CropParam, s: Shapes) -> None:
        data = image(s)
        if data is None:
            return
        for first, extent, size, what in (
            (p.x, p.width, data[-2], "width"), (p.y, p.height, data[-3], "height")
        ):  # fmt: skip
            if 0 <= size < first + extent:
                raise s.error(
                    f"{what}: {extent} from {first} on does not fit in data {data}; "
                    f"expected at most {size - first}"
                )
        s.assign("output", (*data[:-3], p.height, p.width, data[-1]))

    def part(self, p: CropParam, data: Array) -> Array:
        """A view of the part."""
        return data[..., p.y : p.y + p.height, p.x : p.x + p.width, :]

    def reference(self, p: CropParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (self.part(p, inputs[0]).copy(),)

    def backward(self, p: CropParam, out_grad: Array, data: ShapeOnly) -> Array:
        grad = np.zeros(data.shape, out_grad.dtype)
        self.part(p, grad)[...] = out_grad
        return grad


class _Flip(Operator):
    axis: ClassVar[int]
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        image(s, batches=False)
        s.unify(["data", "output"])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.flip(inputs[0], self.axis).copy(),)


class _RandomFlip(_Flip):
    is_random = True

    def random_blocks(self, p: NoParams, output_shapes: Sequence[tuple[int, ...]]) -> int:
        return 1

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Reversed in half the cases."""
        drawn = philox.uniform(ctx.random_key, ctx.random_offset, 1)[0]
        return super().reference(p, inputs, ctx) if drawn < 0.5 else (inputs[0].copy(),)


class FlipLeftRight(_Flip):
    """data (H, W, C) with its columns reversed."""

    name = "_image_flip_left_right"
    aliases = ("_npx__image_flip_left_right",)
    axis = 1


class FlipTopBottom(_Flip):
    """data (H, W, C) with its rows reversed."""

    name = "_image_flip_top_bottom"
    aliases = ("_npx__image_flip_top_bottom",)
    axis = 0


class RandomFlipLeftRight(_RandomFlip):
    """data (H, W, C), its columns reversed with probability ½."""

    name = "_image_random_flip_left_right"
    aliases = ("_npx__image_random_flip_left_right",)
    axis = 1


class RandomFlipTopBottom(_RandomFlip):
    """data (H, W, C), its rows reversed with probability ½."""

    name = "_image_random_flip_top_bottom"
    aliases = ("_npx__image_random_flip_top_bottom",)
    axis = 0
