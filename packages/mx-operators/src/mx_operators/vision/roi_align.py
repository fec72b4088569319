# SPDX-License-Identifier: Apache-2.0
"""Regions of a feature map sampled bilinearly.

Source: He et al., Mask R-CNN, ICCV 2017; for rotated regions Ma et al., Arbitrary-Oriented Scene Text
Detection via Rotation Proposals, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
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
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape


class RegionParam(Params):
    """Extents and scale."""

    pooled_size: Shape = required("(height, width) of the result", lower=1)
    spatial_scale: float = required("extent of the feature map over that of the image")


class ROIAlignParam(RegionParam):
    """Extents, scale, samples."""

    sample_ratio: int = opt(-1, "samples per bin and axis; not above 0: one per element")
    position_sensitive: bool = opt(False, "every bin has channels of its own")
    aligned: bool = opt(False, "pixels' centres lie at ½")


class RROIAlignParam(RegionParam):
    """Extents, scale, samples."""

    sampling_ratio: int = opt(-1, "samples per bin and axis; not above 0: one per element")


P = TypeVar("P", bound=RegionParam)


Corner = tuple[Array, Array, Array]


def corners(y: Array, x: Array, height: int, width: int) -> Iterator[Corner]:
    """The four (row, column, weight) of bilinear samples; outside by more than 1 weights are 0."""
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = np.maximum(y, 0), np.maximum(x, 0)
    low_y, low_x = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    y = np.where(low_y >= height - 1, height - 1, y)
    x = np.where(low_x >= width - 1, width - 1, x)
    low_y, low_x = np.minimum(low_y, height - 1), np.minimum(low_x, width - 1)
    share_y, share_x = y - low_y, x - low_x
    high_y, high_x = np.minimum(low_y + 1, height - 1), np.minimum(low_x + 1, width - 1)
    for row, weight_y in ((low_y, 1 - share_y), (high_y, share_y)):
        for column, weight_x in ((low_x, 1 - share_x), (high_x, share_x)):
            yield row, column, np.where(inside, weight_y * weight_x, 0)


def grid(extent: float, bins: int, wanted: int) -> Array:
    """Positions (bins, samples) along a side of a region, from its beginning."""
    bin_extent = extent / bins
    samples = wanted if wanted > 0 else max(math.ceil(bin_extent), 0)
    return (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / max(samples, 1)) * bin_extent


def region_shapes(
    p: RegionParam, s: Shapes, columns: int
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Shapes of data and rois, checked."""
    data, rois = image_shape(s), s.get("rois")
    if len(p.pooled_size) != 2:
        raise s.error(f"pooled_size: expected (height, width), got {p.pooled_size}")
    if data is not None and 0 in data[2:]:
        raise s.error(f"data: images of {data} are empty")
    if rois is not None and (len(rois) != 2 or rois[1] not in (columns, -1)):
        raise s.error(f"rois: expected (R, {columns}), got {rois}")
    s.assign("rois", (-1, columns))
    return data, rois


def _all_pairs(y: Array, x: Array) -> tuple[Array, Array]:
    """Rows (h, m) and columns (w, n) as (h, w, m·n) each."""
    shape = (y.shape[0], x.shape[0], y.shape[1], x.shape[1])
    pair = np.broadcast_to(y[:, None, :, None], shape), np.broadcast_to(x[None, :, None, :], shape)
    rows, columns = (a.reshape(*shape[:2], shape[2] * shape[3]) for a in pair)
    return rows, columns


def _own_channels(shape: tuple[int, ...]) -> Array:
    """The channel (c, h, w, 1) of each bin: c·h·w in order."""
    return np.arange(math.prod(shape)).reshape(*shape, 1)


def _own(image: Array, row: Array, column: Array) -> Array:
    channels = image.shape[0] // (row.shape[0] * row.shape[1])
    return image[_own_channels((channels, *row.shape[:2])), row[None], column[None]]


class _Align(Operator[P]):
    """The shared part of ROIAlign and RROIAlign; subclasses say where the samples of a region lie."""

    arguments = ("data", "rois")
    without_gradient = ("rois",)

    def samples(self, p: P, region: Array) -> tuple[Array, Array]:
        """Positions y (h, w, m), x (h, w, m) of the samples of every bin."""
        raise NotImplementedError

    def position_sensitive(self, p: P) -> bool:
        """Whether every bin has channels of its own."""
        return False

    def gather(self, p: P, data: Array, rois: Array) -> Iterator[tuple[int, int, list[Corner]]]:
        """Per region its number, its image, and its samples' corners with weights of their mean."""
        for i, region in enumerate(rois):
            image = int(region[0])
            if image < 0:
                continue
            if image >= data.shape[0]:
                raise IndexOutOfBoundsError(
                    f"[{self.name}] rois: expected images below {data.shape[0]}, got {image}"
                )
            y, x = self.samples(p, region)
            count = max(y.shape[2], 1)
            yield i, image, [(r, c, w / count) for r, c, w in corners(y, x, *data.shape[2:])]

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Region by region, all channels and bins at once."""
        data, rois = (wide(x) for x in inputs)
        height, width = p.pooled_size
        sensitive = self.position_sensitive(p)
        channels = data.shape[1] // (height * width) if sensitive else data.shape[1]
        output = np.zeros((len(rois), channels, height, width), data.dtype)
        for i, image, parts in self.gather(p, data, rois):
            for row, column, weight in parts:
                taken = data[image][:, row, column] if not sensitive else _own(data[image], row, column)
                output[i] += (taken * weight).sum(-1)
        return (output.astype(inputs[0].dtype),)

    def backward(self, p: P, out_grad: Array, data: ShapeOnly, rois: Array) -> Array:
        """Every sample gives its share back."""
        grad = np.zeros(data.shape, out_grad.dtype)
        sensitive = self.position_sensitive(p)
        for i, image, parts in self.gather(p, grad, rois):
            for row, column, weight in parts:
                share = out_grad[i][..., None] * weight
                channel: Any = _own_channels(share.shape[:3]) if sensitive else slice(None)
                place: Any = (channel, row[None], column[None]) if sensitive else (channel, row, column)
                np.add.at(grad[image], place, share)
        return grad


class ROIAlign(_Align[ROIAlignParam]):
    """Means of bilinear samples of data (N, C, H, W) in the bins of regions rois (R, 5).

    A region is (image, x₀, y₀, x₁, y₁) in pixels of the image; those of image −1 give zeros. The
    result is (R, C, *pooled_size), or (R, C / bins, *pooled_size) when position_sensitive. Regions
    have no gradient.
    """

    name = "_contrib_ROIAlign"
    floating_only = True

    def infer_shape(self, p: ROIAlignParam, s: Shapes) -> None:
        data, rois = region_shapes(p, s, 5)
        if data is None or rois is None:
            return
        channels, bins = data[1], math.prod(p.pooled_size)
        if p.position_sensitive and channels >= 0:
            if channels % bins:
                raise s.error(f"data: expected a multiple of {bins} channels, got {data}")
            channels //= bins
        s.assign("output", (rois[0], channels, *p.pooled_size))

    def samples(self, p: ROIAlignParam, region: Array) -> tuple[Array, Array]:
        """Positions y (h, w, m), x (h, w, m) of the samples of every bin."""
        offset = 0.5 if p.aligned else 0.0
        x0, y0, x1, y1 = (float(v) * p.spatial_scale - offset for v in region[1:5])
        width, height = x1 - x0, y1 - y0
        if not p.aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        y = y0 + grid(height, p.pooled_size[0], p.sample_ratio)
        x = x0 + grid(width, p.pooled_size[1], p.sample_ratio)
        return _all_pairs(y, x)

    def position_sensitive(self, p: ROIAlignParam) -> bool:
        return p.position_sensitive


class RROIAlign(_Align[RROIAlignParam]):
    """ROIAlign of rotated regions rois (R, 6): (image, centre x, centre y, width, height, degrees)."""

    name = "_contrib_RROIAlign"
    floating_only = True

    def infer_shape(self, p: RROIAlignParam, s: Shapes) -> None:
        data, rois = region_shapes(p, s, 6)
        if data is not None and rois is not None:
            s.assign("output", (rois[0], data[1], *p.pooled_size))

    def samples(self, p: RROIAlignParam, region: Array) -> tuple[Array, Array]:
        """A grid around the centre, rotated."""
        x0, y0, width, height = (float(v) * p.spatial_scale for v in region[1:5])
        width, height = max(width, 1.0), max(height, 1.0)
        angle = float(region[5]) * math.pi / 180
        y = grid(height, p.pooled_size[0], p.sampling_ratio) - height / 2
        x = grid(width, p.pooled_size[1], p.sampling_ratio) - width / 2
        dy, dx = _all_pairs(y, x)
        cos, sin = math.cos(angle), math.sin(angle)
        return dy * cos - dx * sin + y0, dy * sin + dx * cos + x0
