# SPDX-License-Identifier: Apache-2.0
"""SpatialTransformer: an affine GridGenerator followed by a BilinearSampler.

Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape
from mx_operators.vision.bilinear_sampler import sample
from mx_operators.vision.grid_generator import affine_basis, check_target


@param
class SpatialTransformerParam:
    """Extents of the result; map and sampler."""

    target_shape: Shape = opt((0, 0), "(height, width) of the result", lower=0)
    transform_type: str = required("kind of map", choices=("affine",))
    sampler_type: str = required("interpolation", choices=("bilinear",))
    cudnn_off: bool | None = opt(None, "accepted for compatibility")


class SpatialTransformer(OperatorProperty):
    """data (N, C, H, W) at the points θ·(x, y, 1); loc (N, 6) are the matrices θ (2, 3)."""

    name = "SpatialTransformer"
    Param = SpatialTransformerParam
    arguments = ("data", "loc")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Batch and channels of data."""
        check_target(p, s)
        data = image_shape(s)
        s.assign("loc", (-1, 6))
        if data is not None:
            if 0 in data[2:]:
                raise s.error(f"data: images of {data} are empty")
            s.assign("loc", (data[0], 6))
            s.assign("output", (*data[:2], *p.target_shape))

    def gradient(self, p: Any, g: Any) -> Any:
        """Through the sampler, then through the generator."""
        attrs = {"transform_type": "affine", "target_shape": p.target_shape}
        grid = g.op("GridGenerator", (g.input(1),), **attrs)[0]
        data_grad, grid_grad = g.op("_backward_BilinearSampler", (g.out_grad(), g.input(0), grid))
        return (data_grad, g.op("_backward_GridGenerator", (grid_grad,), **attrs)[0])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Generate, then sample."""
        data, loc = wide(inputs[0]), wide(inputs[1])
        grid = (loc.reshape(-1, 2, 3) @ affine_basis(*p.target_shape)).astype(loc.dtype)
        return (sample(data, grid.reshape(-1, 2, *p.target_shape)).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (SpatialTransformer,)
