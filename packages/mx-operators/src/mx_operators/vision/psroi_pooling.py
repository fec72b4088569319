# SPDX-License-Identifier: Apache-2.0
"""Position-sensitive pooling of regions.

Source: Dai et al., R-FCN: Object Detection via Region-based Fully Convolutional Networks, NIPS 2016.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape


class PSROIPoolingParam(Params):
    """Scale, channels, bins."""

    spatial_scale: float = required("extent of the feature map over that of the image", lower=0.0)
    output_dim: int = required("channels of the result", lower=1)
    pooled_size: int = required("bins per side", lower=1)
    group_size: int = opt(0, "groups of channels per side; 0: one per bin", lower=0)


Index = tuple[int | slice, ...]


def groups(p: PSROIPoolingParam) -> int:
    """Groups of channels per side."""
    return p.group_size or p.pooled_size


def _edges(start: float, extent: float, bins: int, limit: int) -> list[tuple[int, int]]:
    """First element and end of every bin along a side."""
    step = extent / bins
    ends = [(np.floor(start + i * step), np.ceil(start + (i + 1) * step)) for i in range(bins)]
    return [(int(np.clip(a, 0, limit)), int(np.clip(b, 0, limit))) for a, b in ends]


def rounded(x: float) -> float:
    """The nearest integer, halves away from zero."""
    return float(np.sign(x) * np.floor(abs(float(x)) + 0.5))


class PSROIPooling(Operator[PSROIPoolingParam]):
    """Means of data (N, D·G², H, W) in the bins of regions rois (R, 5): (R, D, P, P).

    Every bin reads the D channels of its group. A region is (image, x₀, y₀, x₁, y₁) in pixels of
    the image, borders included. Regions have no gradient.
    """

    name = "_contrib_PSROIPooling"
    floating_only = True
    arguments = ("data", "rois")
    without_gradient = ("rois",)

    def infer_shape(self, p: PSROIPoolingParam, s: Shapes) -> None:
        data, rois = image_shape(s), s.get("rois")
        channels = p.output_dim * groups(p) ** 2
        if data is not None and data[1] not in (channels, -1):
            raise s.error(
                f"data: expected {channels} channels for output_dim {p.output_dim} and group_size "
                f"{groups(p)}, got {data}"
            )
        s.assign("rois", (-1, 5))
        if rois is not None:
            s.assign("output", (rois[0], p.output_dim, p.pooled_size, p.pooled_size))

    def bins(self, p: PSROIPoolingParam, data: Array, rois: Array) -> Iterator[tuple[Index, Index, int]]:
        """Per bin its place (region, :, row, column), its part of data, and its elements."""
        _, _, height, width = data.shape
        count = groups(p)
        for i, region in enumerate(rois):
            image = int(region[0])
            if not 0 <= image < data.shape[0]:
                raise IndexOutOfBoundsError(
                    f"[{self.name}] rois: expected images 0 to {data.shape[0] - 1}, got {image}"
                )
            x0, y0 = (rounded(v) * p.spatial_scale for v in region[1:3])
            x1, y1 = ((rounded(v) + 1) * p.spatial_scale for v in region[3:5])
            rows = _edges(y0, max(y1 - y0, 0.1), p.pooled_size, height)
            columns = _edges(x0, max(x1 - x0, 0.1), p.pooled_size, width)
            for r, (top, bottom) in enumerate(rows):
                for c, (left, right) in enumerate(columns):
                    elements = max(bottom - top, 0) * max(right - left, 0)
                    if elements:
                        group = (r * count // p.pooled_size) * count + c * count // p.pooled_size
                        part = (
                            image,
                            slice(group, None, count * count),
                            slice(top, bottom),
                            slice(left, right),
                        )
                        yield (i, slice(None), r, c), part, elements

    def reference(self, p: PSROIPoolingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data, rois = (wide(x) for x in inputs)
        output = np.zeros((len(rois), p.output_dim, p.pooled_size, p.pooled_size), data.dtype)
        for place, part, elements in self.bins(p, data, rois):
            output[place] = data[part].sum((1, 2)) / elements
        return (output.astype(inputs[0].dtype),)

    def backward(self, p: PSROIPoolingParam, out_grad: Array, data: ShapeOnly, rois: Array) -> Array:
        """Shared equally among a bin's elements."""
        grad = np.zeros(data.shape, out_grad.dtype)
        for place, part, elements in self.bins(p, grad, rois):
            grad[part] += (out_grad[place] / elements)[:, None, None]
        return grad
