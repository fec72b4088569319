# SPDX-License-Identifier: Apache-2.0
"""Bilinear interpolation to other extents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import Array, Params, opt
from mx_operators.vision.base import Resample, mixing

MODES = ("like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")


class BilinearResize2DParam(Params):
    """How the extents of the result are chosen, and where samples lie."""

    height: int = opt(1, "output height with mode size", lower=1, upper=10000)
    width: int = opt(1, "output width with mode size", lower=1, upper=10000)
    scale_height: float | None = opt(None, "factor of the height, instead of height")
    scale_width: float | None = opt(None, "factor of the width, instead of width")
    mode: str = opt(
        "size", "size: height and width or scales; like: as the second input; odd_scale: scales, odd "
        "extents stay odd; to_…: next even or odd extent", choices=MODES,
    )  # fmt: skip
    align_corners: bool = opt(True, "the corners' centres stay; else the image's borders do")


def _resized(p: BilinearResize2DParam, extent: int, given: int, scale: float | None, like: int | None) -> int:
    odd = extent % 2
    if p.mode == "like":
        return extent if like is None else like
    if p.mode == "size":
        return given if scale is None else int(extent * scale)
    if p.mode == "odd_scale":
        factor = 1.0 if scale is None else scale
        return int((extent - 1) * factor) + 1 if odd else int(extent * factor)
    if p.mode.startswith("to_even"):
        return extent + (odd if p.mode.endswith("up") else -odd)
    return extent + (1 - odd if p.mode.endswith("up") else odd - 1)


class BilinearResize2D(Resample[BilinearResize2DParam]):
    """data (N, C, H, W) sampled bilinearly at H′ · W′ positions.

    Row i is sampled at i·(H − 1)/(H′ − 1) with align_corners, else at (i + ½)·H/H′ − ½, at least 0;
    an only row is the first one.
    """

    name = "_contrib_BilinearResize2D"
    arguments = ("data", "like")
    without_gradient = ("like",)
    shape_only = ("like",)
    free_types = {"like": "data"}

    def inputs(self, p: BilinearResize2DParam) -> tuple[str, ...]:
        return ("data", "like") if p.mode == "like" else ("data",)

    def extents(self, p: BilinearResize2DParam, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """By mode."""
        like = shapes[1][2:] if p.mode == "like" else (None, None)
        height, width = shapes[0][2:]
        return (
            _resized(p, height, p.height, p.scale_height, like[0]),
            _resized(p, width, p.width, p.scale_width, like[1]),
        )

    def weights(self, p: BilinearResize2DParam, extent: int, new: int) -> Array:
        """Two neighbours a row."""
        i = np.arange(new)
        if p.align_corners or new == 1:
            position = i * ((extent - 1) / max(new - 1, 1))
        else:
            position = np.maximum((i + 0.5) * extent / new - 0.5, 0)
        low = np.minimum(position.astype(np.int64), extent - 1)
        share = position - low
        high = np.minimum(low + 1, extent - 1)
        return mixing((new, extent), ((low, 1 - share), (high, share)))
