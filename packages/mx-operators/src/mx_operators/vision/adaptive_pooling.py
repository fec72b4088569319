# SPDX-License-Identifier: Apache-2.0
"""Adaptive average pooling: a given number of windows that cover the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param
from mx_operators.vision.base import BackwardResample, Resample


@param
class AdaptiveAvgPooling2DParam:
    """Extents of the result."""

    output_size: Shape = opt((), "(height, width); one value is both; () is 1", lower=1)


class AdaptiveAvgPooling2D(Resample):
    """Mean over rows ⌊i·H/H′⌋ … ⌈(i+1)·H/H′⌉ − 1, and columns likewise."""

    name = "_contrib_AdaptiveAvgPooling2D"
    Param = AdaptiveAvgPooling2DParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Extents from the parameter."""
        if len(p.output_size) > 2:
            raise s.error(f"output_size: expected at most 2 values, got {p.output_size}")
        super().infer_shape(p, s)

    def extents(self, p: Any, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """From the parameter."""
        size = p.output_size or (1,)
        return size[0], size[-1]

    def weights(self, p: Any, extent: int, new: int) -> Any:
        """One over the length, inside a window."""
        i, position = np.arange(new)[:, None], np.arange(extent)
        inside = (position >= i * extent // new) & (position < -(-(i + 1) * extent // new))
        return inside / inside.sum(1, keepdims=True)

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs the shape of data only."""
        return g.op("_backward_contrib_AdaptiveAvgPooling2D", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardAdaptiveAvgPooling2D(),)


class BackwardAdaptiveAvgPooling2D(BackwardResample):
    """Gradient of AdaptiveAvgPooling2D."""

    name = "_backward_contrib_AdaptiveAvgPooling2D"
    Param = AdaptiveAvgPooling2DParam
    forward = AdaptiveAvgPooling2D()


OPERATORS: tuple[type[OperatorProperty], ...] = (AdaptiveAvgPooling2D,)
