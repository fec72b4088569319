# SPDX-License-Identifier: Apache-2.0
"""Crop: a rectangle of every image, of given extents or of those of a second input."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

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
from mx_operators.vision.base import image_shape


class CropParam(Params):
    """Place and extents."""

    num_args: int = required("1: extents from h_w; 2: those of the second input", lower=1, upper=2)
    offset: Shape = opt((0, 0), "(y, x) of the upper left corner", lower=0)
    h_w: Shape = opt((0, 0), "(height, width) with one input", lower=0)
    center_crop: bool = opt(False, "the middle, instead of offset")


def _rectangle(
    p: CropParam, shape: Sequence[int], extents: Sequence[int]
) -> tuple[EllipsisType | slice, ...]:
    begins = p.offset
    if p.center_crop:
        begins = tuple((old - new) // 2 for old, new in zip(shape[2:], extents, strict=True))
    return (..., *(slice(b, b + e) for b, e in zip(begins, extents, strict=True)))


class Crop(Operator[CropParam]):
    """data (N, C, H, W) gives (N, C, H′, W′): rows offset[0] on, columns offset[1] on.

    The extents are those of h_w, or of a second input.
    """

    name = "Crop"
    variadic = "num_args"
    without_gradient = ("arg1",)
    shape_only = ("arg1",)

    def infer_shape(self, p: CropParam, s: Shapes) -> None:
        """Batch and channels of data."""
        if len(p.offset) != 2 or len(p.h_w) != 2:
            raise s.error(f"offset and h_w: expected 2 values each, got {p.offset} and {p.h_w}")
        shapes = [image_shape(s, name) for name in self.inputs(p)]
        data, like = shapes[0], shapes[-1]
        if data is None or like is None:
            return
        extents = p.h_w if p.num_args == 1 else like[2:]
        begins = (0, 0) if p.center_crop else p.offset
        for old, begin, new in zip(data[2:], begins, extents, strict=True):
            if old >= 0 and new >= 0 and (begin + new > old or new == 0):
                raise s.error(f"a crop of {tuple(extents)} at {tuple(begins)} does not fit in data {data}")
        s.assign("output", (*data[:2], *extents))

    def reference(self, p: CropParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        extents = p.h_w if p.num_args == 1 else inputs[1].shape[2:]
        return (inputs[0][_rectangle(p, inputs[0].shape, extents)].copy(),)

    def backward(self, p: CropParam, out_grad: Array, arg0: ShapeOnly) -> Array:
        grad = np.zeros(arg0.shape, out_grad.dtype)
        grad[_rectangle(p, grad.shape, out_grad.shape[2:])] = out_grad
        return grad
