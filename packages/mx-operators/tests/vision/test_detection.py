# SPDX-License-Identifier: Apache-2.0
"""Boxes, anchors and regions where no recorded case looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import errors, operators
from mx_core.operator import ReferenceContext, infer_shapes
from mx_operators.vision.boxes import iou, suppress


def compute(name: str, *inputs: Any, **attrs: Any) -> Any:
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    return op.reference(p, [np.asarray(x) for x in inputs], ReferenceContext(scalars=p.scalars))


def boxes(seed: int, n: int) -> Any:
    low = np.random.default_rng(seed).uniform(0, 0.7, (n, 2))
    return np.concatenate((low, low + np.random.default_rng(seed + 1).uniform(0, 0.3, (n, 2))), 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12), st.floats(0, 1))
def test_survivors_overlap_little_and_what_is_suppressed_overlaps_much(
    seed: int, n: int, threshold: float
) -> None:
    given_boxes = boxes(seed, n)
    alive = suppress(given_boxes, None, threshold)
    table = iou(given_boxes, given_boxes)
    for i in range(n):
        better = [j for j in range(i) if alive[j]]
        assert alive[i] == all(table[j, i] <= threshold for j in better)


def test_overlap_of_boxes_without_area() -> None:
    odd = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, np.nan], [0, 0, 1, 1.0]])
    table = iou(odd, odd)
    assert table[3, 3] == 1 and not table[0].any() and not table[1].any()


def test_suppression_of_nothing_and_of_nan_scores() -> None:
    assert compute("_contrib_box_nms", np.zeros((2, 0, 6)))[0].shape == (2, 0, 6)
    rows = np.array([[0, np.nan, 0, 0, 1, 1], [0, 0.5, 0, 0, 1, 1.0]])
    output, source = compute("_contrib_box_nms", rows)
    assert output[0].tolist() == rows[1].tolist() and source.tolist() == [1, -1]


def test_boxes_of_the_background_are_dropped() -> None:
    rows = np.array([[-1, 0.9, 0, 0, 1, 1], [0, 0.5, 0, 0, 0.2, 0.2], [1, 0.4, 0.5, 0.5, 1, 1]])
    for background, kept in ((-1, [1, 2, -1]), (0, [0, 2, -1]), (7, [0, 1, 2])):
        source = compute("_contrib_box_nms", rows, id_index=0, background_id=background)[1]
        assert source.ravel().tolist() == kept


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("_contrib_box_nms", [(3, 5)], {}, "coord_start: rows of 5 elements"),
        ("_contrib_box_nms", [(3, 6)], {"id_index": 6}, "id_index"),
        ("_contrib_box_iou", [(3, 4), (2, 3)], {}, r"rhs: expected \(…, 4\)"),
        ("_contrib_bipartite_matching", [(3,)], {"threshold": 0.1}, "at least 2 dimensions"),
        ("_contrib_box_decode", [(2, 3, 5), (1, 3, 4)], {}, "data: expected"),
        ("_contrib_MultiBoxPrior", [(1, 2, 3)], {}, "expected 4 dimensions"),
        ("_contrib_MultiBoxTarget", [(1, 5, 4), (2, 3, 4), (2, 3, 5)], {}, "label: expected"),
        ("_contrib_MultiBoxDetection", [(2, 1, 5), (2, 20), (1, 5, 4)], {}, "cls_prob: expected"),
        ("_contrib_Proposal", [(2, 24, 3, 3), (2, 48, 3, 3), (2, 3)], {}, "expected one image"),
        ("_contrib_MultiProposal", [(1, 8, 3, 3), (1, 16, 3, 3), (1, 3)], {}, "cls_prob: expected 24"),
        ("_contrib_ROIAlign", [(1, 2, 0, 3), (1, 5)], {"pooled_size": (2, 2), "spatial_scale": 1}, "empty"),
        ("_contrib_ROIAlign", [(1, 2, 3, 3), (1, 4)], {"pooled_size": (2, 2), "spatial_scale": 1}, "rois"),
        (
            "_contrib_ROIAlign", [(1, 2, 3, 3), (1, 5)],
            {"pooled_size": (2, 2), "spatial_scale": 1, "position_sensitive": True}, "multiple of 4",
        ),
    ],
)  # fmt: skip
def test_is_refused(name: str, inputs: Any, attrs: dict[str, Any], message: str) -> None:
    op = operators.get(name)
    with pytest.raises(errors.ShapeError, match=rf"\[{name}\].*{message}"):
        infer_shapes(op, op.Param.parse(attrs, op=name), inputs)


def test_matches_that_do_not_exist() -> None:
    arrays = [np.ones((1, 2)), np.array([[0, 3]]), np.ones((1, 2, 4)), np.ones((1, 3, 4)), *np.ones((2, 4))]
    with pytest.raises(errors.IndexOutOfBoundsError, match="matches: expected 0 to 2, got 3"):
        compute("_contrib_box_encode", *arrays)


def test_a_region_of_no_image_is_zero() -> None:
    data, attrs = np.ones((2, 1, 4, 4)), {"pooled_size": (2, 2), "spatial_scale": 1.0}
    (y,) = compute("_contrib_ROIAlign", data, [[-1, 0, 0, 3, 3], [1, 0, 0, 3, 3]], **attrs)
    assert not y[0].any() and (y[1] == 1).all()
    with pytest.raises(errors.IndexOutOfBoundsError, match="images below 2, got 2"):
        compute("_contrib_ROIAlign", data, [[2, 0, 0, 3, 3.0]], **attrs)


def test_a_turn_by_a_right_angle_turns_the_result() -> None:
    image = np.random.default_rng(0).normal(size=(9, 9))
    attrs = {"pooled_size": (3, 3), "spatial_scale": 1.0, "sampling_ratio": 2}
    region = [[0, 4, 4, 6, 6, 0]]
    (straight,) = compute("_contrib_RROIAlign", image[None, None], region, **attrs)
    region[0][5] = 90
    (turned,) = compute("_contrib_RROIAlign", image[None, None], region, **attrs)
    np.testing.assert_allclose(turned[0, 0], np.rot90(straight[0, 0], -1), atol=1e-12)
