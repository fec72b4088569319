# SPDX-License-Identifier: Apache-2.0
"""Samplers and grids against their references, forward and backward."""

from __future__ import annotations

import numpy as np
import plans
import pytest

from mx_core import operators

LOOSE = {"float32": 2e-5, "float64": 1e-11, "float16": 2e-2, "bfloat16": 1e-1}


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize(
    ("data", "points"),
    [((2, 3, 7, 9), (5, 6)), ((1, 40, 3, 4), (20, 31)), ((2, 1, 1, 1), (2, 2)), ((0, 2, 3, 3), (4, 4))],
)
def test_samples(
    rng: np.random.Generator, dtype: str, data: tuple[int, ...], points: tuple[int, int]
) -> None:
    x = plans.array(rng, data, dtype)
    grid = (plans.array(rng, (data[0], 2, *points), "float64") * 0.8).astype(x.dtype)
    if grid.size:
        grid[0, 0, 0, 0], grid[0, 1, 0, 1], grid[0, 0, 1, 1] = np.nan, np.inf, 1
    plans.verify("BilinearSampler", {}, [x, grid], rtol=LOOSE[dtype], threads=2)
    head = plans.array(rng, (*data[:2], *points), dtype)
    finite = np.where(np.isfinite(grid), grid, 0).astype(x.dtype)
    plans.verify("_backward_BilinearSampler", {}, [head, x, finite], rtol=LOOSE[dtype] * 4, threads=2)


def test_a_row_that_is_longer_than_a_float_can_count() -> None:
    width = 2**24 + 4  # the last index rounds to one that is not there
    x = np.zeros((1, 1, 1, width), "float32")
    x[..., -4:] = 7
    grid = np.array([1, 0], "float32").reshape(1, 2, 1, 1)
    op = operators.get("BilinearSampler")
    call = plans.call_of(op, op.Param.parse({}, op=op.name), [x, grid])
    outputs = [np.zeros(made.shape, "float32") for made in call.outputs]
    plans.run(plans.plan_of(call), [x, grid], outputs, [1] * len(outputs))
    assert outputs[0].item() == 7


@pytest.mark.parametrize("dtype", plans.FLOATS)
def test_grids(rng: np.random.Generator, dtype: str) -> None:
    affine, warp = {"transform_type": "affine", "target_shape": (4, 7)}, {"transform_type": "warp"}
    plans.verify("GridGenerator", affine, [plans.array(rng, (3, 6), dtype)], rtol=LOOSE[dtype])
    plans.verify("GridGenerator", warp, [plans.array(rng, (3, 2, 5, 6), dtype)], rtol=LOOSE[dtype])
    head = plans.array(rng, (3, 2, 4, 7), dtype)
    plans.verify("_backward_GridGenerator", affine, [head], rtol=LOOSE[dtype])
    plans.verify("_backward_GridGenerator", warp, [head], rtol=LOOSE[dtype])


@pytest.mark.parametrize("dtype", plans.FLOATS)
def test_transformer(rng: np.random.Generator, dtype: str) -> None:
    attrs = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (6, 5)}
    x, loc = plans.array(rng, (2, 3, 8, 9), dtype), plans.array(rng, (2, 6), dtype)
    plans.verify("SpatialTransformer", attrs, [x, loc], rtol=LOOSE[dtype], threads=2)
