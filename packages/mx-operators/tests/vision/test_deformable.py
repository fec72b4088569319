# SPDX-License-Identifier: Apache-2.0
"""Bent convolutions: without offsets ordinary ones; masks weigh; bad shapes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import errors, operators
from mx_core.operator import infer_shapes
from testkit import replay

RNG = np.random.default_rng(7)
PLAIN, MODULATED = "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution"
REGIONS = "_contrib_DeformablePSROIPooling"


@pytest.mark.parametrize("name", [PLAIN, MODULATED])
def test_without_offsets_it_is_a_convolution(name: str) -> None:
    attrs = {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 0), "num_filter": 4}
    data, weight, bias = RNG.normal(size=(2, 4, 6, 7)), RNG.normal(size=(4, 2, 3, 2)), RNG.normal(size=4)
    attrs["num_group"] = 2
    (expected,) = replay.forward("Convolution", attrs, [data, weight, bias], False)
    extra = [np.zeros((2, 12, *expected.shape[2:]))]
    if name == MODULATED:
        extra.append(np.ones((2, 6, *expected.shape[2:])))
    (found,) = replay.forward(name, attrs, [data, *extra, weight, bias], False)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_gradients_of_masked_samples() -> None:
    attrs: dict[str, Any] = {"kernel": (2, 2), "num_filter": 2, "num_deformable_group": 2, "pad": (1, 1)}
    inputs = [
        RNG.normal(size=(1, 4, 3, 4)), RNG.normal(size=(1, 16, 4, 5)), RNG.uniform(size=(1, 8, 4, 5)),
        RNG.normal(size=(2, 4, 2, 2)), RNG.normal(size=2),
    ]  # fmt: skip
    y = replay.forward(MODULATED, attrs, inputs, True)
    head = RNG.normal(size=y[0].shape)
    grads = replay.backward(MODULATED, attrs, inputs, y, [head])
    for i, grad in enumerate(grads):
        direction = RNG.normal(size=inputs[i].shape)
        ends = []
        for sign in (1e-6, -1e-6):
            moved = [x + sign * direction if j == i else x for j, x in enumerate(inputs)]
            ends.append((replay.forward(MODULATED, attrs, moved, True)[0] * head).sum())
        np.testing.assert_allclose((grad * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [PLAIN, MODULATED])
def test_a_batch_of_nothing(name: str) -> None:
    attrs = {"kernel": (2, 2), "num_filter": 2}
    inputs = [np.empty((0, 4, 3, 4)), np.empty((0, 8, 2, 3)), np.ones((2, 4, 2, 2)), np.ones(2)]
    if name == MODULATED:
        inputs.insert(2, np.empty((0, 4, 2, 3)))
    y = replay.forward(name, attrs, inputs, True)
    gradients = replay.backward(name, attrs, inputs, y, [np.empty((0, 2, 2, 3))])
    assert y[0].shape == (0, 2, 2, 3)
    for given, gradient in zip(inputs, gradients, strict=True):
        np.testing.assert_array_equal(gradient, np.zeros(given.shape))


def test_bad_shapes_are_refused() -> None:
    op = operators.get(PLAIN)
    for attrs, shapes, message in (
        ({"kernel": (3,), "num_filter": 1}, [(1, 2, 4, 4)], "kernel: expected 2 values"),
        ({"kernel": (3, 3), "num_filter": 1}, [(1, 2, 4, 4), (1, 17, 2, 2)], r"offset.*\(1, 18, 2, 2\)"),
        ({"kernel": (3, 3), "num_filter": 1, "num_deformable_group": 3}, [(1, 2, 4, 4)], "num_deformable"),
        ({"kernel": (5, 5), "num_filter": 1}, [(1, 2, 4, 4)], "larger than the padded data"),
    ):
        with pytest.raises(errors.ShapeError, match=message):
            given = [*shapes, *[None] * (4 - len(shapes))]
            infer_shapes(op, op.Param.parse(attrs, op=PLAIN), given)
    pool = operators.get("_contrib_PSROIPooling")
    p = pool.Param.parse({"spatial_scale": 1, "output_dim": 2, "pooled_size": 2}, op=pool.name)
    with pytest.raises(errors.ShapeError, match="expected 8 channels"):
        infer_shapes(pool, p, [(1, 6, 4, 4), (1, 5)])
    with pytest.raises(errors.IndexOutOfBoundsError, match="images 0 to 0, got 3"):
        replay.forward(pool.name, p.attrs(), [np.ones((1, 8, 4, 4)), np.array([[3, 0, 0, 1, 1.0]])], False)


def regions(**attrs: Any) -> tuple[dict[str, Any], list[Any]]:
    """Regions of two images, one of them empty, one beyond the image, and offsets for two classes."""
    attrs = {"spatial_scale": 0.5, "output_dim": 4, "group_size": 2, "pooled_size": 3, "part_size": 2,
             "sample_per_part": 2, "trans_std": 0.2, **attrs}  # fmt: skip
    rois = np.array([[0, 1, 2, 9, 11], [1, 3, 3, 3, 3], [1, -4, 3, 30, 13]])
    return attrs, [RNG.normal(size=(2, 16, 7, 6)), rois.astype(float), RNG.normal(size=(3, 4, 2, 2))]


def test_gradients_of_moved_bins(check_gradient: Any) -> None:
    attrs, inputs = regions()
    check_gradient(REGIONS, inputs, **attrs)
    check_gradient(REGIONS, inputs[:2], **{**attrs, "no_trans": True})


def test_offsets_of_no_extent_move_nothing(run: Any) -> None:
    attrs, inputs = regions(trans_std=0.0)
    unmoved = run(REGIONS, inputs[:2], **{**attrs, "no_trans": True})
    np.testing.assert_array_equal(run(REGIONS, inputs, **attrs), unmoved)
    constant = run(REGIONS, [np.ones((2, 16, 7, 6)), *inputs[1:]], **attrs)[0]
    np.testing.assert_allclose(constant[:2], 1)
    assert (constant[2, ..., 2] == 0).all()  # all of these bins lies outside


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 15, 7, 6), (3, 5), (3, 4, 2, 2)], "data: expected 16 channels"),
        ([(2, 16, 0, 6), (3, 5), (3, 4, 2, 2)], "data: images"),
        ([(2, 16, 7, 6), (3, 5), (3, 3, 2, 2)], "trans: expected 2 rows"),
        ([(2, 16, 7, 6), (3, 5), (3, 6, 2, 2)], "trans: expected 2 rows"),
        ([(2, 16, 7, 6), (3, 5), (2, 4, 2, 2)], "trans"),
        ([(2, 16, 7, 6), (3, 4), (3, 4, 2, 2)], "rois"),
    ],
)
def test_regions_of_bad_shapes_are_refused(shapes: list[tuple[int, ...]], message: str) -> None:
    op = operators.get(REGIONS)
    p = op.Param.parse(regions()[0], op=REGIONS)
    with pytest.raises(errors.ShapeError, match=message):
        infer_shapes(op, p, shapes)


def test_regions_of_images_that_are_not_there_are_refused(run: Any) -> None:
    attrs, inputs = regions()
    inputs[1][1, 0] = 2
    with pytest.raises(errors.IndexOutOfBoundsError, match="images 0 to 1, got 2"):
        run(REGIONS, inputs, **attrs)
