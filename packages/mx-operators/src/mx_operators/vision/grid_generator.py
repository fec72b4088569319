# SPDX-License-Identifier: Apache-2.0
"""GridGenerator: where BilinearSampler samples, from an affine map or from a flow.

Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape


@param
class GridGeneratorParam:
    """Kind of map and extents of the grid."""

    transform_type: str = required("of affine maps, or of flows", choices=("affine", "warp"))
    target_shape: Shape = opt((0, 0), "(height, width) of an affine map's grid", lower=0)


def affine_basis(height: int, width: int) -> Any:
    """(3, height·width): x and y of the grid's points from −1 to 1, and 1."""
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    return np.stack((x.ravel(), y.ravel(), np.ones(height * width)))


def check_target(p: Any, s: Any) -> None:
    """The extents of an affine map's grid."""
    if len(p.target_shape) != 2 or min(p.target_shape) < 2:
        raise s.error(f"target_shape: expected 2 extents of at least 2, got {p.target_shape}")


class GridGenerator(OperatorProperty):
    """Sampling points (N, 2, H, W): x in channel 0, y in channel 1, −1 to 1 across the image.

    affine: data (N, 6) are matrices θ (2, 3), and the points θ·(x, y, 1) for the points of a regular
    grid. warp: data (N, 2, H, W) are displacements in pixels of the points of a regular grid.
    """

    name = "GridGenerator"
    Param = GridGeneratorParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """From target_shape, or as data."""
        if p.transform_type == "warp":
            s.unify(["data", "output"])
            s.assign("data", (-1, 2, -1, -1))
            data = s.get("data")
            if data[2] in (0, 1) or data[3] in (0, 1):
                raise s.error(f"data: expected images of at least 2 by 2, got {data}")
            return
        check_target(p, s)
        s.assign("data", (-1, 6))
        s.assign("output", (s.get("data")[0], 2, *p.target_shape))
        s.assign("data", (s.get("output")[0], 6))

    def gradient(self, p: Any, g: Any) -> Any:
        """Linear: needs the out-gradient only."""
        return g.op("_backward_GridGenerator", (g.out_grad(),), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardGridGenerator(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A matrix product, or a sum."""
        data = wide(inputs[0])
        if p.transform_type == "warp":
            height, width = data.shape[2:]
            y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
            moved = data + np.stack((x, y))
            return ((moved / half_extents(data.shape) - 1).astype(inputs[0].dtype),)
        grid = data.reshape(-1, 2, 3) @ affine_basis(*p.target_shape)
        return (grid.reshape(-1, 2, *p.target_shape).astype(inputs[0].dtype),)


def half_extents(shape: Sequence[int]) -> Any:
    """(2, 1, 1): half the width and height of an image in pixels, between centres."""
    return np.array(((shape[3] - 1) / 2, (shape[2] - 1) / 2)).reshape(2, 1, 1)


class BackwardGridGenerator(BackwardOperator):
    """Gradient of GridGenerator."""

    name = "_backward_GridGenerator"
    Param = GridGeneratorParam
    arguments = ("out_grad",)
    results = ("data_grad",)
    gradient_of = {"data_grad": "out_grad"}

    def infer_shape(self, p: Any, s: Any) -> None:
        """One matrix per grid, or as out_grad."""
        if p.transform_type == "warp":
            s.unify(["out_grad", "data_grad"])
            return
        grad = image_shape(s, "out_grad")
        if grad is not None:
            s.assign("data_grad", (grad[0], 6))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The transposed map."""
        g = wide(inputs[0])
        if p.transform_type == "warp":
            return ((g / half_extents(g.shape)).astype(inputs[0].dtype),)
        grad = g.reshape(g.shape[0], 2, -1) @ affine_basis(*g.shape[2:]).T
        return (grad.reshape(-1, 6).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (GridGenerator,)
