# SPDX-License-Identifier: Apache-2.0
"""Adaptive average pooling: a given number of windows that cover the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import Array, Params, Shape, Shapes, opt
from mx_operators.vision.base import Resample


class AdaptiveAvgPooling2DParam(Params):
    """Extents of the result."""

    output_size: Shape = opt((), "(height, width); one value is both; () is 1", lower=1)


class AdaptiveAvgPooling2D(Resample[AdaptiveAvgPooling2DParam]):
    """Mean over rows ⌊i·H/H′⌋ … ⌈(i+1)·H/H′⌉ − 1, and columns likewise."""

    name = "_contrib_AdaptiveAvgPooling2D"

    def infer_shape(self, p: AdaptiveAvgPooling2DParam, s: Shapes) -> None:
        if len(p.output_size) > 2:
            raise s.error(f"output_size: expected at most 2 values, got {p.output_size}")
        super().infer_shape(p, s)

    def extents(self, p: AdaptiveAvgPooling2DParam, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """From the parameter."""
        size = p.output_size or (1,)
        return size[0], size[-1]

    def weights(self, p: AdaptiveAvgPooling2DParam, extent: int, new: int) -> Array:
        """One over the length, inside a window."""
        i, position = np.arange(new)[:, None], np.arange(extent)
        inside = (position >= i * extent // new) & (position < -(-(i + 1) * extent // new))
        return inside / inside.sum(1, keepdims=True)
