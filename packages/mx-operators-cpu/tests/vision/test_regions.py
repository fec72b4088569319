# SPDX-License-Identifier: Apache-2.0
"""Regions of interest against their references, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_core import operators
from mx_core.errors import ArgumentError, IndexOutOfBoundsError


def _regions(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    """Regions of two images: beside the map, inside out, of one point, none."""
    corners = rng.random((n, 4)) * 30 - 6
    corners[:, 2:] += corners[:, :2] * (rng.random((n, 1)) > 0.2)
    corners[0, 2:] = corners[0, :2]
    return np.concatenate((rng.integers(-1, 2, (n, 1)), corners), 1).astype(dtype)


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("attrs", [
    {}, {"sample_ratio": 2}, {"aligned": True}, {"aligned": True, "sample_ratio": 3},
    {"position_sensitive": True}, {"position_sensitive": True, "sample_ratio": 2},
])  # fmt: skip
def test_aligned_means(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    data = plans.array(rng, (2, 12, 9, 11), dtype)
    attrs = {"pooled_size": (3, 2), "spatial_scale": 0.5, **attrs}
    channels = 2 if attrs.get("position_sensitive") else 12
    for n in (0, 9):
        rois = _regions(rng, 9, data.dtype)[:n]
        plans.verify("_contrib_ROIAlign", attrs, [data, rois], rtol=plans.RTOL[dtype] * 4, threads=2)
        head = plans.array(rng, (n, channels, 3, 2), dtype)
        plans.verify(
            "_backward_contrib_ROIAlign", attrs, [head, data, rois], rtol=plans.RTOL[dtype] * 4, threads=2
        )


@pytest.mark.parametrize("width", [11, 300])
def test_means_of_many_channels(rng: np.random.Generator, width: int) -> None:
    """More than go side by side, over maps of which regions read much and little."""
    data = plans.array(rng, (2, 70, 9, width), "float32")
    rois = _regions(rng, 9, data.dtype)
    rois[:4, 3] += 4 * width
    attrs = {"pooled_size": (7, 7), "spatial_scale": 0.25, "sample_ratio": 2}
    plans.verify("_contrib_ROIAlign", attrs, [data, rois], rtol=4e-4, threads=2)


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (7, 7)])
def test_maxima(rng: np.random.Generator, dtype: str, size: tuple[int, int]) -> None:
    data = plans.array(rng, (2, 3, 9, 11), dtype)
    data[0, 0, 4, 4] = np.nan
    attrs = {"pooled_size": size, "spatial_scale": 0.5}
    rois = _regions(rng, 9, data.dtype)
    plans.verify("ROIPooling", attrs, [data, rois], threads=2)
    op = operators.get("ROIPooling")
    _, places = op.reference(op.Param.parse(attrs, op=op.name), [data, rois], None)  # type: ignore[arg-type]
    head = plans.array(rng, places.shape, dtype)
    plans.verify(
        "_backward_ROIPooling", attrs, [head, data, rois, places], rtol=plans.RTOL[dtype] * 4, threads=2
    )
    plans.verify("ROIPooling", attrs, [data, rois[:0]])


@pytest.mark.parametrize("name", ["_contrib_ROIAlign", "ROIPooling"])
@pytest.mark.parametrize(("region", "error"), [
    ((2, 0, 0, 4, 4), IndexOutOfBoundsError), ((np.nan, 0, 0, 4, 4), IndexOutOfBoundsError),
    ((0, 0, 0, 1e30, 4), ArgumentError), ((0, 0, np.nan, 4, 4), ArgumentError),
])  # fmt: skip
def test_wrong_regions(name: str, region: tuple[float, ...], error: type[Exception]) -> None:
    op = operators.get(name)
    inputs = [np.zeros((2, 1, 5, 5), np.float32), np.array([region], np.float32)]
    call = plans.call_of(op, op.Param.parse({"pooled_size": (2, 2), "spatial_scale": 1.0}, op=name), inputs)
    outputs = [np.zeros(s.shape, "int32" if s.dtype == 4 else "float32") for s in call.outputs]
    if name == "ROIPooling" and region[3] == 1e30:
        plans.run(plans.plan_of(call), inputs, outputs, [plans.WRITE] * len(outputs))
        return
    with pytest.raises(IndexOutOfBoundsError if name == "ROIPooling" else error, match="rois: "):
        plans.run(plans.plan_of(call), inputs, outputs, [plans.WRITE] * len(outputs))


def test_a_place_outside_the_map(rng: np.random.Generator) -> None:
    op = operators.get("_backward_ROIPooling")
    head, data = plans.array(rng, (1, 1, 1, 1)), plans.array(rng, (1, 1, 3, 3))
    inputs = [head, data, np.zeros((1, 5), np.float32), np.full((1, 1, 1, 1), 9, np.int32)]
    call = plans.call_of(
        op, op.Param.parse({"pooled_size": (1, 1), "spatial_scale": 1.0}, op=op.name), inputs
    )
    with pytest.raises(IndexOutOfBoundsError, match="maxidx: expected below 9, got 9"):
        plans.run(plans.plan_of(call), inputs, [np.zeros_like(data)], [plans.WRITE])


def _turned(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    return np.concatenate((_regions(rng, n, dtype), rng.uniform(-200, 200, (n, 1))), 1).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("samples", [-1, 2])
def test_turned_regions(rng: np.random.Generator, dtype: str, samples: int) -> None:
    data = plans.array(rng, (2, 5, 9, 11), dtype)
    attrs = {"pooled_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": samples}
    rtol = {"float32": 2e-5, "float64": 1e-11, "float16": 8e-3}[dtype]
    for n in (0, 9):
        rois = _turned(rng, 9, data.dtype)[:n]
        plans.verify("_contrib_RROIAlign", attrs, [data, rois], rtol=rtol, threads=2)
        head = plans.array(rng, (n, 5, 3, 2), dtype)
        plans.verify("_backward_contrib_RROIAlign", attrs, [head, data, rois], rtol=rtol, threads=2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("bins", "groups"), [(3, 0), (4, 2), (1, 1)])
def test_sensitive_means(rng: np.random.Generator, dtype: str, bins: int, groups: int) -> None:
    side = groups or bins
    data = plans.array(rng, (2, 2 * side * side, 9, 11), dtype)
    attrs = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": bins, "group_size": groups}
    rtol = {"float32": 2e-5, "float64": 1e-11, "float16": 8e-3}[dtype]
    for n in (0, 9):
        rois = np.abs(_regions(rng, 9, data.dtype)[:n])
        plans.verify("_contrib_PSROIPooling", attrs, [data, rois], rtol=rtol, threads=2)
        head = plans.array(rng, (n, 2, bins, bins), dtype)
        plans.verify("_backward_contrib_PSROIPooling", attrs, [head, data, rois], rtol=rtol, threads=2)


@pytest.mark.parametrize(("name", "region", "error"), [
    ("_contrib_RROIAlign", [2, 0, 0, 5, 5, 0], IndexOutOfBoundsError),
    ("_contrib_RROIAlign", [np.nan, 0, 0, 5, 5, 0], IndexOutOfBoundsError),
    ("_contrib_RROIAlign", [0, 0, 0, 1e9, 1e9, 0], ArgumentError),
    ("_contrib_RROIAlign", [0, 0, 0, np.inf, 5, 0], ArgumentError),
    ("_contrib_PSROIPooling", [2, 0, 0, 5, 5], IndexOutOfBoundsError),
    ("_contrib_PSROIPooling", [-1, 0, 0, 5, 5], IndexOutOfBoundsError),
    ("_contrib_PSROIPooling", [0, np.nan, 0, 5, 5], ArgumentError),
])  # fmt: skip
def test_what_no_region_is(
    rng: np.random.Generator, name: str, region: list[float], error: type[Exception]
) -> None:
    data, rois = plans.array(rng, (2, 8, 6, 6)), np.float32([region])
    attrs = {"spatial_scale": 1.0, "pooled_size": (2, 2)}
    if name == "_contrib_PSROIPooling":
        attrs |= {"pooled_size": 2, "output_dim": 2}
    op = operators.get(name)
    plan = plans.plan_of(plans.call_of(op, op.Param.parse(attrs, op=name), [data, rois]))
    with pytest.raises(error):
        plans.run(plan, [data, rois], [np.zeros((1, 2 if "PS" in name else 8, 2, 2), np.float32)], [1])


@pytest.mark.parametrize("far", [np.nan, np.inf, -np.inf, 1e30, 0.0])
def test_turned_by_anything(rng: np.random.Generator, far: float) -> None:
    rois = np.float32([[0, 3, 3, 4, 4, far], [1, far, far, 4, 4, 30]])
    attrs = {"spatial_scale": 1.0, "pooled_size": (2, 2)}
    op = operators.get("_contrib_RROIAlign")
    data = plans.array(rng, (2, 3, 6, 6))
    plan = plans.plan_of(plans.call_of(op, op.Param.parse(attrs, op=op.name), [data, rois]))
    out = np.zeros((2, 3, 2, 2), np.float32)
    plans.run(plan, [data, rois], [out], [1])
    assert np.isfinite(out).all()  # what is nowhere is outside


def _proposals(rng: np.random.Generator, batch: int, dtype: str) -> list[np.ndarray]:
    made = [rng.random((batch, 12, 5, 7)), rng.normal(size=(batch, 24, 5, 7)) * 0.3, [[80, 112, 1.0]] * batch]
    return [np.asarray(x, plans.dtypes.numpy_dtype(plans.dtypes.code(dtype))) for x in made]


PROPOSALS = {"scales": (2.0, 4.0), "feature_stride": 16, "output_score": True, "rpn_post_nms_top_n": 20}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("attrs", [
    {}, {"rpn_pre_nms_top_n": 15, "threshold": 0.3}, {"rpn_pre_nms_top_n": 0, "rpn_min_size": 40}, {"iou_loss": True},
])  # fmt: skip
def test_proposals(rng: np.random.Generator, dtype: str, attrs: dict[str, Any]) -> None:
    attrs = {**PROPOSALS, **attrs}
    plans.verify("_contrib_MultiProposal", attrs, _proposals(rng, 3, dtype), threads=2)
    plans.verify("_contrib_Proposal", attrs, _proposals(rng, 1, dtype))


def test_proposals_of_any_number(rng: np.random.Generator) -> None:
    given = _proposals(rng, 2, "float32")
    given[0][0, 6:, 2, ::2] = np.nan
    given[1][:, :, 3] = np.nan
    given[1][:, :, 2] = 1e30
    given[2][1, :2] = [-40, 30]
    plans.verify("_contrib_MultiProposal", PROPOSALS, given)
    given[2][0, 0] = np.nan
    op = operators.get("_contrib_MultiProposal")
    plan = plans.plan_of(plans.call_of(op, op.Param.parse(PROPOSALS, op=op.name), given))
    outputs = [np.zeros((40, n), np.float32) for n in (5, 1)]
    with pytest.raises(ArgumentError, match="im_info"):
        plans.run(plan, given, outputs, [1, 1])


def _events(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    sequences, kinds, events = 6, 3, 9
    positive = [np.abs(rng.normal(size=shape)) + 0.1 for shape in ((sequences, kinds), (kinds,), (kinds,))]
    state, lags = rng.random((sequences, kinds)), rng.random((sequences, events))
    marks = rng.integers(0, kinds, (sequences, events)).astype(np.int32)
    lengths = np.array([0, 1, 4, 9, 9, 30])
    real = [np.asarray(x, dtype) for x in (*positive, state, lags)]
    return [*real, marks, lengths.astype(dtype), np.full(sequences, 20, dtype)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_self_exciting_processes(rng: np.random.Generator, dtype: str) -> None:
    given = _events(rng, dtype)
    plans.verify("_contrib_hawkesll", {}, given, threads=2)
    head = plans.array(rng, (6,), dtype)
    plans.verify("_backward_contrib_hawkesll", {}, [head, *given], threads=2)
    for mark in (-1, 3, 2**31 - 1):
        given[5][3, 2] = mark
        with pytest.raises(IndexOutOfBoundsError, match="marks"):
            plans.verify("_contrib_hawkesll", {}, given)
