# SPDX-License-Identifier: Apache-2.0
"""Grids, samplers and windows beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError, ShapeError
from mx_core.operator import infer_shapes


def image(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape)


def test_the_identity_map_leaves_an_image_alone(run: Any, check_gradient: Any) -> None:
    data = image(2, 3, 5, 4)
    loc = np.tile([1.0, 0, 0, 0, 1, 0], (2, 1))
    attrs = {"target_shape": (5, 4), "transform_type": "affine", "sampler_type": "bilinear"}
    np.testing.assert_allclose(run("SpatialTransformer", [data, loc], **attrs)[0], data, atol=1e-12)
    check_gradient("SpatialTransformer", [data, loc + 0.1 * image(2, 6)], **attrs)


def test_a_flow_moves_by_pixels(run: Any, check_gradient: Any) -> None:
    data, flow = image(1, 2, 4, 5), np.zeros((1, 2, 4, 5))
    flow[:, 0] = 1
    grid = run("GridGenerator", [flow], transform_type="warp")[0]
    moved = run("BilinearSampler", [data, grid])[0]
    np.testing.assert_allclose(moved[..., :-1], data[..., 1:], atol=1e-12)
    np.testing.assert_allclose(moved[..., -1], 0, atol=1e-12)
    check_gradient("GridGenerator", [flow], transform_type="warp")


def test_points_far_away_read_zero(run: Any) -> None:
    grid = np.full((1, 2, 1, 1), 1e30)
    assert run("BilinearSampler", [image(1, 2, 3, 3), grid])[0].tolist() == [[[[0.0]], [[0.0]]]]
    grid[:] = np.nan
    assert run("BilinearSampler", [image(1, 2, 3, 3), grid])[0].tolist() == [[[[0.0]], [[0.0]]]]


def test_regions_are_clipped_and_empty_windows_are_zero(run: Any) -> None:
    data = np.arange(16.0).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3], [0, 3, 3, 9, 9], [0, 20, 20, 30, 30], [-1, 0, 0, 0, 0]], np.float64)
    out, position = run("ROIPooling", [data, rois], pooled_size=(2, 2), spatial_scale=1.0)
    assert out[:, 0].tolist() == [[[5, 7], [13, 15]], [[15, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]
    assert position[1, 0].tolist() == [[15, -1], [-1, -1]]
    with pytest.raises(IndexOutOfBoundsError, match="image 1 of 1"):
        run("ROIPooling", [data, rois + 1], pooled_size=(2, 2), spatial_scale=1.0)
    with pytest.raises(IndexOutOfBoundsError, match="expected numbers"):
        run("ROIPooling", [data, rois * np.nan], pooled_size=(2, 2), spatial_scale=1.0)


def test_crop(run: Any, check_gradient: Any) -> None:
    data = image(1, 2, 5, 6)
    out = run("Crop", [data], num_args=1, h_w=(3, 2), offset=(1, 4))[0]
    np.testing.assert_array_equal(out, data[..., 1:4, 4:6])
    middle = run("Crop", [data], num_args=1, h_w=(3, 2), center_crop=True)[0]
    np.testing.assert_array_equal(middle, data[..., 1:4, 2:4])
    check_gradient("Crop", [data], num_args=1, h_w=(3, 2), center_crop=True)


def naive_correlation(a: Any, b: Any, k: int, d: int, s1: int, s2: int, pad: int, multiply: bool) -> Any:
    a, b = (np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for x in (a, b))
    r, half = d // s2, k // 2
    border = d + half
    height, width = (-(-(e - 2 * border) // s1) for e in a.shape[2:])
    out = np.zeros((a.shape[0], (2 * r + 1) ** 2, height, width))
    for n, c, i, j in np.ndindex(*out.shape):
        dy, dx = s2 * (c // (2 * r + 1) - r), s2 * (c % (2 * r + 1) - r)
        for y, x in np.ndindex(k, k):
            u = a[n, :, i * s1 + d + y, j * s1 + d + x]
            v = b[n, :, i * s1 + d + y + dy, j * s1 + d + x + dx]
            out[n, c, i, j] += (u * v if multiply else abs(u - v)).sum()
    return out / (a.shape[1] * k * k)


@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize(("k", "d", "s1", "s2", "pad"), [(1, 1, 1, 1, 1), (3, 2, 2, 2, 2), (1, 3, 1, 2, 0)])
def test_correlation(
    run: Any, check_gradient: Any, multiply: bool, k: int, d: int, s1: int, s2: int, pad: int
) -> None:
    a, b = image(2, 3, 8, 9), image(2, 3, 8, 9)[::-1].copy()
    attrs = {"kernel_size": k, "max_displacement": d, "stride1": s1, "stride2": s2,
             "pad_size": pad, "is_multiply": multiply}  # fmt: skip
    expected = naive_correlation(a, b, k, d, s1, s2, pad, multiply)
    np.testing.assert_allclose(run("Correlation", [a, b], **attrs)[0], expected)
    check_gradient("Correlation", [a, b], **attrs)


@pytest.mark.parametrize(
    ("name", "attrs", "shapes", "message"),
    [
        ("GridGenerator", {"transform_type": "affine"}, [(2, 6)], "target_shape"),
        ("GridGenerator", {"transform_type": "affine", "target_shape": (3, 3)}, [(2, 5)], "data"),
        ("GridGenerator", {"transform_type": "warp"}, [(2, 2, 1, 4)], "at least 2 by 2"),
        ("BilinearSampler", {}, [(2, 3, 4, 4), (3, 2, 4, 4)], "grid"),
        ("ROIPooling", {"pooled_size": (2,), "spatial_scale": 1}, [(1, 1, 4, 4), (1, 5)], "pooled_size"),
        ("ROIPooling", {"pooled_size": (2, 2), "spatial_scale": 1}, [(1, 1, 4, 4), (1, 4)], "rois"),
        ("Crop", {"num_args": 1, "h_w": (5, 5), "offset": (1, 1)}, [(1, 1, 5, 5)], "does not fit"),
        ("Correlation", {"kernel_size": 2}, [(1, 1, 5, 5)] * 2, "odd"),
        ("Correlation", {"max_displacement": 3}, [(1, 1, 5, 5)] * 2, "do not fit"),
    ],
)  # fmt: skip
def test_errors(name: str, attrs: dict[str, Any], shapes: list[Any], message: str) -> None:
    op = operators.get(name)
    with pytest.raises(ShapeError, match=message):
        infer_shapes(op, op.Param.parse(attrs, op=name), shapes)
