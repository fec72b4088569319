# SPDX-License-Identifier: Apache-2.0
"""GridGenerator: where BilinearSampler samples, from an affine map or from a flow.

Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, opt, required
from mx_operators.nn.base import wide


class GridGeneratorParam(Params):
    """Kind of map and extents of the grid."""

    transform_type: str = required("of affine maps, or of flows", choices=("affine", "warp"))
    target_shape: Shape = opt((0, 0), "(height, width) of an affine map's grid", lower=0)


def affine_basis(height: int, width: int) -> Array:
    """(3, height·width): x and y of the grid's points from −1 to 1, and 1."""
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    return np.stack((x.ravel(), y.ravel(), np.ones(height * width)))


def check_target(p: Any, s: Any) -> None:
    """The extents of an affine map's grid."""
    if len(p.target_shape) != 2 or min(p.target_shape) < 2:
        raise s.error(f"target_shape: expected 2 extents of at least 2, got {p.target_shape}")


def half_extents(shape: Sequence[int]) -> Array:
    """(2, 1, 1): half the width and height of an image in pixels, between centres."""
    return np.array(((shape[3] - 1) / 2, (shape[2] - 1) / 2)).reshape(2, 1, 1)


class GridGenerator(Operator[GridGeneratorParam]):
    """Sampling points (N, 2, H, W): x in channel 0, y in channel 1, −1 to 1 across the image.

    affine: data (N, 6) are matrices θ (2, 3), and the points θ·(x, y, 1) for the points of a regular
    grid. warp: data (N, 2, H, W) are displacements in pixels of the points of a regular grid.
    """

    name = "GridGenerator"

    def infer_shape(self, p: GridGeneratorParam, s: Shapes) -> None:
        """From target_shape, or as data."""
        if p.transform_type == "warp":
            s.unify(["data", "output"])
            s.assign("data", (-1, 2, -1, -1))
            data = s.ranked("data")
            if data[2] in (0, 1) or data[3] in (0, 1):
                raise s.error(f"data: expected images of at least 2 by 2, got {data}")
            return
        check_target(p, s)
        s.assign("data", (-1, 6))
        s.assign("output", (s.ranked("data")[0], 2, *p.target_shape))
        s.assign("data", (s.ranked("output")[0], 6))

    def reference(self, p: GridGeneratorParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A matrix product, or a sum."""
        data = wide(inputs[0])
        if p.transform_type == "warp":
            height, width = data.shape[2:]
            y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
            displaced = data + np.stack((x, y))
            return ((displaced / half_extents(data.shape) - 1).astype(inputs[0].dtype),)
        grid = data.reshape(-1, 2, 3) @ affine_basis(*p.target_shape)
        return (grid.reshape(-1, 2, *p.target_shape).astype(inputs[0].dtype),)

    def backward(self, p: GridGeneratorParam, out_grad: Array) -> Array:
        if p.transform_type == "warp":
            return out_grad / half_extents(out_grad.shape)
        grad = out_grad.reshape(out_grad.shape[0], 2, -1) @ affine_basis(*out_grad.shape[2:]).T
        return grad.reshape(-1, 6)
