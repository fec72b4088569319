# SPDX-License-Identifier: Apache-2.0
"""ROIPooling: maxima over a grid of windows in regions of interest.

Source: Girshick, Fast R-CNN, ICCV 2015.
"""

from __future__ import annotations

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
    required,
)
from mx_operators.vision.base import image_shape


class ROIPoolingParam(Params):
    """Grid and scale."""

    pooled_size: Shape = required("(height, width) of the grid of windows", lower=1)
    spatial_scale: float = required("pixels of data per unit of the regions", lower=0.0, upper=1.0)


def _bounds(first: int, last: int, windows: int, extent: int) -> list[tuple[int, int]]:
    """Begin and end of each window along one axis, inside the image."""
    size = max(last - first + 1, 1) / windows
    return [
        (
            min(max(int(np.floor(i * size)) + first, 0), extent),
            min(max(int(np.ceil((i + 1) * size)) + first, 0), extent),
        )
        for i in range(windows)
    ]


def _rounded(x: float) -> int:
    return int(np.floor(abs(x) + 0.5)) * (1 if x >= 0 else -1)


def image_of(roi: Array, n_images: int, op: str) -> int:
    """The image a region lies in; a negative index marks padding, which reads image 0."""
    if not np.isfinite(roi).all():
        raise IndexOutOfBoundsError(f"[{op}] rois: expected numbers, got {roi.tolist()}")
    if roi[0] >= n_images:
        raise IndexOutOfBoundsError(f"[{op}] rois: image {roi[0]:g} of {n_images} images")
    return max(int(roi[0]), 0)


class ROIPooling(Operator[ROIPoolingParam]):
    """data (N, C, H, W) and rois (R, 5) give (R, C, H′, W′).

    A region is (image, x1, y1, x2, y2), both ends included, in units of 1/spatial_scale pixels; it is
    rounded to pixels and divided into H′·W′ windows. A window without pixels gives 0. The hidden
    output maxidx is the position of the maximum in its image, row by row, or −1.
    """

    name = "ROIPooling"
    arguments = ("data", "rois")
    without_gradient = ("rois",)
    results = ("output", "maxidx")
    hidden = ("maxidx",)
    fixed_types = {"maxidx": "int32"}

    def infer_shape(self, p: ROIPoolingParam, s: Shapes) -> None:
        if len(p.pooled_size) != 2:
            raise s.error(f"pooled_size: expected 2 values, got {p.pooled_size}")
        s.assign("rois", (-1, 5))
        data, rois = image_shape(s), s.ranked("rois")
        if data is not None:
            if 0 in data[:1]:
                raise s.error(f"data: no images in {data}")
            s.assign("output", (rois[0], data[1], *p.pooled_size))
        s.unify(["output", "maxidx"])

    def reference(self, p: ROIPoolingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Region by region, window by window."""
        data, rois = inputs[0], np.asarray(inputs[1], np.float64)
        channels, height, width = data.shape[1:]
        out = np.zeros((len(rois), channels, *p.pooled_size), data.dtype)
        position = np.full(out.shape, -1, np.int32)
        for n, roi in enumerate(rois):
            image = data[image_of(roi, data.shape[0], self.name)]
            x1, y1, x2, y2 = (_rounded(v * p.spatial_scale) for v in roi[1:])
            for i, (top, bottom) in enumerate(_bounds(y1, y2, p.pooled_size[0], height)):
                for j, (left, right) in enumerate(_bounds(x1, x2, p.pooled_size[1], width)):
                    if bottom <= top or right <= left:
                        continue
                    window = image[:, top:bottom, left:right].reshape(channels, -1)
                    best = window.argmax(1)
                    out[n, :, i, j] = window[np.arange(channels), best]
                    row, column = np.divmod(best, right - left)
                    position[n, :, i, j] = (row + top) * width + column + left
        return out, position

    def backward(
        self, p: ROIPoolingParam, out_grad: Array, data: ShapeOnly, rois: Array, maxidx: Array
    ) -> Array:
        """Out-gradients added up where the maxima were."""
        n, channels, height, width = data.shape
        grad = np.zeros((n, channels, height * width), out_grad.dtype)
        for head, roi, where in zip(out_grad, np.asarray(rois, np.float64), maxidx, strict=True):
            channel, *window = np.nonzero(where >= 0)
            place = (channel, *window)
            np.add.at(grad[image_of(roi, n, self.backward_name)], (channel, where[place]), head[place])
        return grad.reshape(data.shape)
