# SPDX-License-Identifier: Apache-2.0
"""BilinearSampler: an image read between its pixels.

Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape


class BilinearSamplerParam(Params):
    """Nothing that counts here."""

    cudnn_off: bool | None = opt(None, "accepted for compatibility")


def sampler_shapes(s: Shapes) -> None:
    """The grid has the batch of data and two channels."""
    data, grid = image_shape(s), image_shape(s, "grid")
    if data is not None and 0 in data[2:]:
        raise s.error(f"data: images of {data} are empty")
    s.assign("grid", (-1 if data is None else data[0], 2, -1, -1))
    if grid is not None:
        s.assign("data", (grid[0], -1, -1, -1))


def _corners(
    grid: Array, height: int, width: int
) -> Iterator[tuple[Array, Array, Array, Array, Array, float, float]]:
    """Per corner around the sampling points: row, column, whether inside, and weights.

    The weights are w_y, w_x, and their derivatives by the row and by the column.
    """
    x = (grid[:, 0] + 1) * (width - 1) / 2
    y = (grid[:, 1] + 1) * (height - 1) / 2
    left, top = np.floor(x), np.floor(y)
    for row, wy, dy in ((top, 1 - (y - top), -1.0), (top + 1, y - top, 1.0)):
        for column, wx, dx in ((left, 1 - (x - left), -1.0), (left + 1, x - left, 1.0)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            r = np.where(inside, row, 0).astype(np.int64)
            c = np.where(inside, column, 0).astype(np.int64)
            yield r, c, inside, wy, wx, dy, dx


def _batch(grid: Array) -> Array:
    return np.arange(grid.shape[0])[:, None, None]


def sample(data: Array, grid: Array) -> Array:
    """data (N, C, H, W) at the points of grid (N, 2, H′, W′); zero outside the image."""
    out = np.zeros((*grid.shape[:1], *grid.shape[2:], data.shape[1]), data.dtype)
    for row, column, inside, wy, wx, _, _ in _corners(grid, *data.shape[2:]):
        out += np.where(inside, wy * wx, 0)[..., None] * data[_batch(grid), :, row, column]
    return np.moveaxis(out, -1, 1)


class BilinearSampler(Operator[BilinearSamplerParam]):
    """data (N, C, H, W) at the points of grid (N, 2, H′, W′) gives (N, C, H′, W′).

    Channel 0 of grid is x, channel 1 is y, −1 to 1 across the centres of the outer pixels; pixels
    outside the image count as 0.
    """

    name = "BilinearSampler"
    floating_only = True
    arguments = ("data", "grid")

    def infer_shape(self, p: BilinearSamplerParam, s: Shapes) -> None:
        """Channels of data, extents of grid."""
        sampler_shapes(s)
        data = s.get("data")
        if data is not None:
            s.assign("output", (*data[:2], *s.ranked("grid")[2:]))

    def reference(self, p: BilinearSamplerParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Four weighted corners."""
        return (sample(wide(inputs[0]), wide(inputs[1])).astype(inputs[0].dtype),)

    def backward(self, p: BilinearSamplerParam, out_grad: Array, data: Array, grid: Array) -> Arrays:
        """Out-gradients spread over corners; the weights' derivatives."""
        height, width = data.shape[2:]
        heads = np.moveaxis(out_grad, 1, -1)
        data_grad, grid_grad = np.zeros_like(data), np.zeros_like(grid)
        for row, column, inside, wy, wx, dy, dx in _corners(grid, height, width):
            weight = np.where(inside, wy * wx, 0)[..., None]
            where: Any = (_batch(grid), slice(None), row, column)
            np.add.at(data_grad, where, weight * heads)
            value = np.where(inside, (data[_batch(grid), :, row, column] * heads).sum(-1), 0)
            grid_grad[:, 0] += value * wy * dx * (width - 1) / 2
            grid_grad[:, 1] += value * wx * dy * (height - 1) / 2
        return data_grad, grid_grad
