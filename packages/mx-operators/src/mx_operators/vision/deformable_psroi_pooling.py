# SPDX-License-Identifier: Apache-2.0
"""Position-sensitive pooling of regions whose bins are shifted by the data.

Source: Dai et al., Deformable Convolutional Networks, ICCV 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt, required
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape
from mx_operators.vision.psroi_pooling import rounded

#: extent of a region in cells of the feature map is at least this
SMALLEST = 0.1


class DeformablePSROIPoolingParam(Params):
    """Scale, channels, bins, samples, offsets."""

    spatial_scale: float = required("extent of the feature map over that of the image", lower=0.0)
    output_dim: int = required("channels D of the result", lower=1)
    group_size: int = required("groups G of channels per side", lower=1)
    pooled_size: int = required("bins P per side", lower=1)
    part_size: int = opt(0, "offsets Q per side; 0: one per bin", lower=0)
    sample_per_part: int = opt(1, "samples per side of a bin", lower=1)
    trans_std: float = opt(0.0, "offsets are in units of this share of the region", lower=0.0)
    no_trans: bool = opt(False, "bins stay where they are; trans is not taken")


def parts(p: DeformablePSROIPoolingParam) -> int:
    """Offsets per side."""
    return p.part_size or p.pooled_size


class Bins(NamedTuple):
    """The samples of a region: y (K, P, P, S, 1) and x (K, P, P, 1, S) of K classes, those inside."""

    region: int
    image: int
    y: Array
    x: Array
    inside: Array
    extent: tuple[float, float]  # height and width of the region


def _corners(positions: Array) -> tuple[Array, Array, Array]:
    """Cells on both sides, and how far after the first one."""
    low = np.floor(positions)
    return low.astype(np.int64), np.ceil(positions).astype(np.int64), positions - low


class DeformablePSROIPooling(Operator[DeformablePSROIPoolingParam]):
    """Means of samples of data (N, D·G², H, W) in the bins of regions rois (R, 5): (R, D, P, P).

    Every bin reads the D channels of its group, bilinearly at sample_per_part² places from its corner
    on, of those that are inside the image. A region is (image, x₀, y₀, x₁, y₁) in pixels of the image,
    borders included. trans (R, 2·K, Q, Q) moves bins, to the right and down, by shares of the region:
    class k of K takes the rows 2·k and 2·k + 1, and D/K channels. Regions have no gradient.
    """

    name = "_contrib_DeformablePSROIPooling"
    floating_only = True
    arguments = ("data", "rois", "trans")
    without_gradient = ("rois",)

    def inputs(self, p: DeformablePSROIPoolingParam) -> tuple[str, ...]:
        return self.arguments[:2] if p.no_trans else self.arguments

    def infer_shape(self, p: DeformablePSROIPoolingParam, s: Shapes) -> None:
        data, channels = image_shape(s), p.output_dim * p.group_size**2
        if data is not None and data[1] not in (channels, -1):
            raise s.error(
                f"data: expected {channels} channels for output_dim {p.output_dim} and group_size "
                f"{p.group_size}, got {data}"
            )
        if data is not None and 0 in data[2:]:
            raise s.error(f"data: images of {data} are empty")
        s.assign("rois", (-1, 5))
        if not p.no_trans:
            s.assign("trans", (-1, -1, parts(p), parts(p)))
            rows = s.ranked("trans")[1]
            if rows >= 0 and (rows == 0 or rows % 2 or p.output_dim % (rows // 2)):
                raise s.error(
                    f"trans: expected 2 rows for each of as many classes as divide {p.output_dim}, got {rows}"
                )
            s.assign("trans", (s.ranked("rois")[0], -1, -1, -1))
            s.assign("rois", (s.ranked("trans")[0], -1))
        s.assign("output", (s.ranked("rois")[0], p.output_dim, p.pooled_size, p.pooled_size))

    def bins(
        self, p: DeformablePSROIPoolingParam, shape: Sequence[int], rois: Array, trans: Array | None
    ) -> Iterator[Bins]:
        """Region by region."""
        side, samples = np.arange(p.pooled_size), np.arange(p.sample_per_part)
        part = side * parts(p) // p.pooled_size
        for i, region in enumerate(rois):
            image = int(region[0])
            if not 0 <= image < shape[0]:
                raise IndexOutOfBoundsError(
                    f"[{self.name}] rois: expected images 0 to {shape[0] - 1}, got {image}"
                )
            x0, y0 = (rounded(v) * p.spatial_scale - 0.5 for v in region[1:3])
            x1, y1 = ((rounded(v) + 1) * p.spatial_scale - 0.5 for v in region[3:5])
            width, height = max(x1 - x0, SMALLEST), max(y1 - y0, SMALLEST)
            shift = np.zeros((1, 2, p.pooled_size, p.pooled_size))
            if trans is not None:
                shift = trans[i].reshape(-1, 2, parts(p), parts(p))[:, :, part[:, None], part] * p.trans_std
            step_x, step_y = width / p.pooled_size, height / p.pooled_size
            left = x0 + side * step_x + shift[:, 0] * width
            top = y0 + side[:, None] * step_y + shift[:, 1] * height
            x = left[..., None, None] + samples * (step_x / p.sample_per_part)
            y = top[..., None, None] + samples[:, None] * (step_y / p.sample_per_part)
            inside = (x >= -0.5) & (x <= shape[3] - 0.5) & (y >= -0.5) & (y <= shape[2] - 0.5)
            yield Bins(i, image, y.clip(0, shape[2] - 1), x.clip(0, shape[3] - 1), inside, (height, width))

    def reads(self, p: DeformablePSROIPoolingParam, bins: Bins) -> tuple[Array, ...]:
        """Channels (K, D/K, P, P, 1, 1), rows and columns of the four cells around samples, and places between."""
        side = np.arange(p.pooled_size) * p.group_size // p.pooled_size
        group = side[:, None] * p.group_size + side
        channels = np.arange(p.output_dim).reshape(len(bins.y), -1, 1, 1) * p.group_size**2 + group
        y0, y1, dy = (v[:, None] for v in _corners(bins.y))
        x0, x1, dx = (v[:, None] for v in _corners(bins.x))
        return channels[..., None, None], y0, y1, dy, x0, x1, dx

    def reference(self, p: DeformablePSROIPoolingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """All bins of a region at once."""
        data, rois, *more = (wide(x) for x in inputs)
        output = np.zeros((len(rois), p.output_dim, p.pooled_size, p.pooled_size), data.dtype)
        for bins in self.bins(p, data.shape, rois, more[0] if more else None):
            c, y0, y1, dy, x0, x1, dx = self.reads(p, bins)
            image = data[bins.image]
            above = image[c, y0, x0] * (1 - dx) + image[c, y0, x1] * dx
            below = image[c, y1, x0] * (1 - dx) + image[c, y1, x1] * dx
            values = np.where(bins.inside[:, None], above * (1 - dy) + below * dy, 0)
            count = np.maximum(bins.inside.sum((-2, -1)), 1)[:, None]
            output[bins.region] = (values.sum((-2, -1)) / count).reshape(output.shape[1:])
        return (output.astype(inputs[0].dtype),)

    def backward(
        self,
        p: DeformablePSROIPoolingParam,
        out_grad: Array,
        data: Array,
        rois: Array,
        trans: Array | None = None,
    ) -> Arrays:
        """To the cells around samples by their weights; to offsets by the slopes between those cells."""
        grad = np.zeros(data.shape, data.dtype)
        d_trans = [] if trans is None else [np.zeros_like(trans)]
        side = np.arange(p.pooled_size) * parts(p) // p.pooled_size
        part: Any = (slice(None), side[:, None], side)
        for bins in self.bins(p, data.shape, rois, trans):
            c, y0, y1, dy, x0, x1, dx = self.reads(p, bins)
            image, into = data[bins.image], grad[bins.image]
            count = np.maximum(bins.inside.sum((-2, -1)), 1)[:, None]
            share = out_grad[bins.region].reshape(len(bins.y), -1, *out_grad.shape[2:]) / count
            d = np.where(bins.inside[:, None], share[..., None, None], 0)
            for y, wy in ((y0, 1 - dy), (y1, dy)):
                for x, wx in ((x0, 1 - dx), (x1, dx)):
                    np.add.at(into, tuple(np.broadcast_arrays(c, y, x)), d * wy * wx)
            if not d_trans:
                continue
            right = (image[c, y0, x1] - image[c, y0, x0]) * (1 - dy) + (
                image[c, y1, x1] - image[c, y1, x0]
            ) * dy
            down = (image[c, y1, x0] - image[c, y0, x0]) * (1 - dx) + (
                image[c, y1, x1] - image[c, y0, x1]
            ) * dx
            slots = d_trans[0][bins.region].reshape(-1, 2, parts(p), parts(p))
            for axis, slope, extent in ((0, right, bins.extent[1]), (1, down, bins.extent[0])):
                shift = (d * slope).sum((1, -2, -1)) * extent * p.trans_std
                np.add.at(slots[:, axis], part, shift)
        return (grad, *d_trans)
