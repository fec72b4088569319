# SPDX-License-Identifier: Apache-2.0
"""Interpolation and adaptive pooling against their references: extents, types, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_core import operators

CASES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("BilinearResize2D", {"height": 9, "width": 4}, (2, 3, 5, 6)),
    ("BilinearResize2D", {"height": 3, "width": 11}, (2, 3, 5, 6)),
    ("BilinearResize2D", {"height": 7, "width": 7, "align_corners": False}, (1, 2, 1, 3)),
    ("AdaptiveAvgPooling2D", {"output_size": (3, 2)}, (2, 3, 7, 5)),
    ("AdaptiveAvgPooling2D", {"output_size": (9,)}, (2, 3, 7, 5)),
    ("AdaptiveAvgPooling2D", {}, (70, 64, 8, 8)),
]


@pytest.mark.parametrize(("name", "attrs", "shape"), CASES)
@pytest.mark.parametrize("dtype", plans.FLOATS)
def test_forward_and_backward(
    rng: np.random.Generator, name: str, attrs: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> None:
    x = plans.array(rng, shape, dtype)
    plans.verify(f"_contrib_{name}", attrs, [x], threads=2)
    size = attrs.get("output_size") or (attrs.get("height", 1), attrs.get("width", 1))
    head = plans.array(rng, (*shape[:2], size[0], size[-1]), dtype)
    plans.verify(f"_backward_contrib_{name}", attrs, [head, x], threads=2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("shapes", [[(2, 3, 4, 5)], [(2, 3, 4, 6), (2, 1, 2, 3), (2, 2, 8, 12)]])
def test_pixels_are_repeated(rng: np.random.Generator, dtype: str, shapes: list[tuple[int, ...]]) -> None:
    attrs = {"scale": 2, "sample_type": "nearest", "num_args": len(shapes)}
    inputs = [plans.array(rng, shape, dtype) for shape in shapes]
    plans.verify("UpSampling", attrs, inputs, threads=2)
    if len(shapes) == 1 and dtype in plans.FLOATS:
        head = plans.array(rng, (*shapes[0][:2], *(2 * e for e in shapes[0][2:])), dtype)
        plans.verify("_backward_UpSampling", attrs, [head, *inputs])


def test_the_gradient_of_a_filter_is_left_to_its_deconvolution(rng: np.random.Generator) -> None:
    op = operators.get("_backward_UpSampling")
    p = op.Param.parse({"scale": 1, "sample_type": "bilinear", "num_filter": 1, "num_args": 1})
    arrays = [plans.array(rng, shape) for shape in ((1, 1, 5, 15), (1, 1, 5, 15), (1, 1, 1, 1))]
    assert plans.plan_of(plans.call_of(op, p, arrays)) is None
