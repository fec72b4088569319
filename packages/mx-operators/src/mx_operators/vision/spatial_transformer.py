# SPDX-License-Identifier: Apache-2.0
"""SpatialTransformer: an affine GridGenerator followed by a BilinearSampler.

Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
"""

from __future__ import annotations

from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape
from mx_operators.vision.bilinear_sampler import sample
from mx_operators.vision.grid_generator import GridGeneratorParam, affine_basis, check_target


class SpatialTransformerParam(Params):
    """Extents of the result; map and sampler."""

    target_shape: Shape = opt((0, 0), "(height, width) of the result", lower=0)
    transform_type: str = required("kind of map", choices=("affine",))
    sampler_type: str = required("interpolation", choices=("bilinear",))
    cudnn_off: bool | None = opt(None, "accepted for compatibility")


class SpatialTransformer(Operator[SpatialTransformerParam]):
    """data (N, C, H, W) at the points θ·(x, y, 1); loc (N, 6) are the matrices θ (2, 3)."""

    name = "SpatialTransformer"
    floating_only = True
    arguments = ("data", "loc")

    def infer_shape(self, p: SpatialTransformerParam, s: Shapes) -> None:
        """Batch and channels of data."""
        check_target(p, s)
        data = image_shape(s)
        s.assign("loc", (-1, 6))
        if data is not None:
            if 0 in data[2:]:
                raise s.error(f"data: images of {data} are empty")
            s.assign("loc", (data[0], 6))
            s.assign("output", (*data[:2], *p.target_shape))

    def gradient(self, p: SpatialTransformerParam, g: GradientBuilder) -> Gradients:
        """Through the sampler, then through the generator."""
        generator = GridGeneratorParam(transform_type="affine", target_shape=p.target_shape)
        grid = g.op("GridGenerator", (g.input("loc"),), params=generator)[0]
        data_grad, grid_grad = g.op("_backward_BilinearSampler", (g.out_grad(), g.input("data"), grid))
        return {"data": data_grad, "loc": g.op("_backward_GridGenerator", (grid_grad,), params=generator)[0]}

    def reference(self, p: SpatialTransformerParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data, loc = wide(inputs[0]), wide(inputs[1])
        grid = (loc.reshape(-1, 2, 3) @ affine_basis(*p.target_shape)).astype(loc.dtype)
        return (sample(data, grid.reshape(-1, 2, *p.target_shape)).astype(inputs[0].dtype),)
