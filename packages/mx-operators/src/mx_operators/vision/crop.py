# SPDX-License-Identifier: Apache-2.0
"""Crop: a rectangle of every image, of given extents or of those of a second input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator
from mx_operators.vision.base import image_shape


@param
class CropParam:
    """Place and extents."""

    num_args: int = required("1: extents from h_w; 2: those of the second input", lower=1, upper=2)
    offset: Shape = opt((0, 0), "(y, x) of the upper left corner", lower=0)
    h_w: Shape = opt((0, 0), "(height, width) with one input", lower=0)
    center_crop: bool = opt(False, "the middle, instead of offset")


def _rectangle(p: Any, shape: Sequence[int], extents: Sequence[int]) -> tuple[Any, ...]:
    begins = p.offset
    if p.center_crop:
        begins = tuple((old - new) // 2 for old, new in zip(shape[2:], extents, strict=True))
    return (..., *(slice(b, b + e) for b, e in zip(begins, extents, strict=True)))


class Crop(OperatorProperty):
    """data (N, C, H, W) gives (N, C, H′, W′): rows offset[0] on, columns offset[1] on.

    The extents are those of h_w, or of a second input.
    """

    name = "Crop"
    Param = CropParam
    variadic = "num_args"
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
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

    def infer_type(self, p: Any, t: Any) -> None:
        """All alike."""
        t.unify([*self.inputs(p), "output"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Written into zeros; the second input has none."""
        grads = g.op("_backward_Crop", (g.out_grad(), g.input(0)), params=p)
        return [*grads, *([None] if p.num_args == 2 else [])]

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardCrop(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A slice."""
        extents = p.h_w if p.num_args == 1 else inputs[1].shape[2:]
        return (inputs[0][_rectangle(p, inputs[0].shape, extents)].copy(),)


class BackwardCrop(BackwardOperator):
    """Gradient of Crop with respect to data."""

    name = "_backward_Crop"
    Param = CropParam
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    gradient_of = {"data_grad": "data"}
    shape_only_inputs = frozenset((1,))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        grad = np.zeros(inputs[1].shape, inputs[1].dtype)
        grad[_rectangle(p, grad.shape, inputs[0].shape[2:])] = inputs[0]
        return (grad,)


OPERATORS: tuple[type[OperatorProperty], ...] = (Crop,)
