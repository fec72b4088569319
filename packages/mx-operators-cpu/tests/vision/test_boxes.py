# SPDX-License-Identifier: Apache-2.0
"""Boxes against their references: overlap, suppression, matching, anchors, targets, detections."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError

WIDE = ("float32", "float64")


def boxes(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Boxes in corner form, some of them inside out."""
    low, sides = rng.random((*shape, 2)), rng.random((*shape, 2)) * 0.6 - 0.05
    return np.concatenate((low, low + sides), -1).astype(dtype)


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("form", ["corner", "center"])
def test_overlaps(rng: np.random.Generator, dtype: str, form: str) -> None:
    kind = plans.array(rng, (), dtype).dtype
    lhs, rhs = boxes(rng, (3, 40)).astype(kind), boxes(rng, (70,)).astype(kind)
    lhs[0, 0, 1] = np.nan
    plans.verify("_contrib_box_iou", {"format": form}, [lhs, rhs], threads=2)
    plans.verify("_contrib_box_iou", {"format": form}, [lhs[:, :0], rhs])


def _scored(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    classes, scores = rng.integers(0, 3, (*shape, 1)), rng.integers(-3, 20, (*shape, 1)) / 16
    rows = np.concatenate((classes, scores, boxes(rng, shape), rng.random((*shape, 1))), -1).astype(dtype)
    rows[..., 3, 1] = np.nan
    return rows


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("attrs", [
    {}, {"overlap_thresh": 0.1, "valid_thresh": 0.2}, {"topk": 7, "id_index": 0}, {"topk": 0},
    {"id_index": 0, "background_id": 1, "overlap_thresh": 0.2}, {"id_index": 0, "force_suppress": True},
    {"in_format": "center"}, {"out_format": "center"},
])  # fmt: skip
def test_suppression(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    data = _scored(rng, (2, 3, 120), dtype)
    plans.verify("_contrib_box_nms", attrs, [data], threads=2)
    op = operators.get("_contrib_box_nms")
    p = op.Param.parse(attrs, op=op.name)
    source = op.reference(p, [data], None)[1]  # type: ignore[arg-type]
    head = plans.array(rng, data.shape, dtype)
    plans.verify("_backward_contrib_box_nms", attrs, [head, source, data])


def test_suppression_of_few_and_none(rng: np.random.Generator) -> None:
    for shape in ((0, 6), (1, 6), (2, 0, 6), (0, 3, 6)):
        plans.verify("_contrib_box_nms", {}, [plans.array(rng, shape)])
    plans.verify("_contrib_box_nms", {"overlap_thresh": 0.9}, [_scored(rng, (2000,), "float32")])


def test_a_source_that_is_no_row(rng: np.random.Generator) -> None:
    op = operators.get("_backward_contrib_box_nms")
    data = plans.array(rng, (4, 6))
    inputs = [data, np.array([0, -1, 4, 1]), data]
    call = plans.call_of(op, op.Param.parse({}, op=op.name), inputs)
    with pytest.raises(IndexOutOfBoundsError, match="expected rows below 4, got 4"):
        plans.run(plans.plan_of(call), inputs, [np.zeros_like(data)], [plans.WRITE])


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("shape", [(2, 5, 7), (9, 4), (0, 3), (3, 0), (2, 3, 1)])
def test_matching(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    scores = (rng.integers(0, 9, shape) / 8).astype(plans.array(rng, (), dtype).dtype)
    for attrs in ({"threshold": 0.3}, {"threshold": 0.7, "is_ascend": True}, {"threshold": 1e-12, "topk": 2}):
        plans.verify("_contrib_bipartite_matching", attrs, [scores])
    if scores.size:
        scores.flat[0] = np.nan
        plans.verify("_contrib_bipartite_matching", {"threshold": 0.3}, [scores])


@pytest.mark.parametrize("dtype", WIDE)
def test_encoding(rng: np.random.Generator, dtype: str) -> None:
    samples, matches = rng.integers(-1, 2, (2, 30)).astype(dtype), rng.integers(0, 5, (2, 30)).astype(dtype)
    anchors, refs = (abs(boxes(rng, (2, n), dtype)) for n in (30, 5))
    anchors[..., 2:] += anchors[..., :2]
    refs[..., 2:] += refs[..., :2]
    means, stds = rng.random(4).astype(dtype), rng.random(4).astype(dtype) + 1
    plans.verify("_contrib_box_encode", {}, [samples, matches, anchors, refs, means, stds], rtol=1e-5)
    for attrs in ({}, {"std0": 0.1, "std3": 0.2, "format": "corner"}, {"clip": 0.5}):
        offsets = plans.array(rng, (3, 30, 4), dtype)
        plans.verify("_contrib_box_decode", attrs, [offsets, anchors[:1]], rtol=1e-5)
    matches[1, 7], samples[1, 7] = 5, 1
    op = operators.get("_contrib_box_encode")
    inputs = [samples, matches, anchors, refs, means, stds]
    call = plans.call_of(op, op.Param.parse({}, op=op.name), inputs)
    with pytest.raises(IndexOutOfBoundsError, match="matches: expected 0 to 4, got 5"):
        plans.run(plans.plan_of(call), inputs, [np.zeros_like(anchors)] * 2, [plans.WRITE] * 2)


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("attrs", [
    {}, {"sizes": (0.3, 0.8), "ratios": (1.0, 2.0, 0.5), "clip": True},
    {"steps": (0.1, 0.2), "offsets": (0.0, 1.0), "sizes": (0.5,)},
])  # fmt: skip
def test_anchors(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    for shape in ((1, 2, 5, 7), (2, 1, 0, 3)):
        plans.verify("_contrib_MultiBoxPrior", attrs, [plans.array(rng, shape, dtype)])


def _objects(rng: np.random.Generator, batch: int, most: int, dtype: str) -> np.ndarray:
    labels = np.concatenate((rng.integers(0, 4, (batch, most, 1)), abs(boxes(rng, (batch, most)))), -1)
    labels[..., 3:] = labels[..., 1:3] + 0.1 + rng.random((batch, most, 2)) / 2
    for row, count in zip(labels, rng.integers(0, most + 1, batch), strict=True):
        row[count:] = -1
    return labels.astype(dtype)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("attrs", [
    {}, {"overlap_threshold": 0.2, "ignore_label": -7.0}, {"overlap_threshold": -1.0},
    {"negative_mining_ratio": 3.0, "negative_mining_thresh": 0.3, "variances": (0.1, 0.1, 0.2, 0.3)},
])  # fmt: skip
def test_targets(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    anchors = abs(boxes(rng, (1, 90), dtype))
    anchors[..., 2:] += anchors[..., :2]
    anchors[0, 20:30] = anchors[0, 10:20]
    for most in (0, 1, 6):
        labels, predicted = _objects(rng, 5, most, dtype), plans.array(rng, (5, 4, 90), dtype)
        plans.verify("_contrib_MultiBoxTarget", attrs, [anchors, labels, predicted], rtol=1e-5, threads=2)
    few = [anchors[:, :2], _objects(rng, 3, 5, dtype), plans.array(rng, (3, 4, 2), dtype)]
    plans.verify("_contrib_MultiBoxTarget", attrs, few, rtol=1e-5)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("attrs", [
    {}, {"threshold": 0.4, "clip": False}, {"nms_topk": 9, "nms_threshold": 0.1}, {"force_suppress": True},
    {"nms_threshold": 2.0, "variances": (0.2, 0.1, 0.1, 0.1)},
])  # fmt: skip
def test_detections(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    prob, offsets = rng.random((3, 4, 80)).astype(dtype), plans.array(rng, (3, 320), dtype)
    anchors = abs(boxes(rng, (1, 80), dtype))
    anchors[..., 2:] += anchors[..., :2]
    prob[0, 2, 5] = np.nan
    plans.verify("_contrib_MultiBoxDetection", attrs, [prob, offsets, anchors], rtol=1e-5, threads=2)
    plans.verify("_contrib_MultiBoxDetection", attrs, [prob[..., :0], offsets[:, :0], anchors[:, :0]])
