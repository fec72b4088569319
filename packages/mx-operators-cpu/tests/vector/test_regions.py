# SPDX-License-Identifier: Apache-2.0
"""Regions of interest against their references, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import vector_plans as plans

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
