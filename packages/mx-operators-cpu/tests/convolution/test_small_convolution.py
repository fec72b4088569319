# SPDX-License-Identifier: Apache-2.0
"""Convolutions with little work, which loops compute, and those next to them, which oneDNN's primitives do."""

from __future__ import annotations

from typing import Any

import layer_plans
import numpy as np
import pytest
from plans import scratch_bytes

from mx_core import operators


def _inputs(data: tuple[int, ...], weight: tuple[int, ...], filters: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float32) for shape in (data, weight, (filters,))]


@pytest.mark.parametrize(
    ("data", "weight", "attrs"),
    [
        ((1, 2, 100, 8), (4, 2, 3, 3), {}),
        ((1, 2, 3, 3), (1, 2, 3, 3), {}),  # one position
        ((3, 4, 6, 5), (7, 4, 3, 3), {"pad": (1, 1)}),
        ((2, 3, 9, 8), (5, 3, 3, 2), {"pad": (2, 1), "dilate": (2, 3)}),
        ((2, 8, 6, 6), (8, 4, 3, 3), {"num_group": 2, "pad": (1, 1)}),
        ((2, 3, 40), (6, 3, 5), {"pad": (2,)}),
        ((1, 2, 4, 5, 6), (4, 2, 2, 3, 2), {"pad": (1, 0, 1)}),
        ((1, 2, 5, 5), (3, 2, 7, 7), {"pad": (6, 6)}),  # windows that reach beyond both ends
        ((1, 4, 40, 30), (8, 4, 3, 3), {"pad": (1, 1)}),  # more work
        ((1, 2, 20, 20), (4, 2, 3, 3), {"stride": (2, 2)}),
        ((1, 8, 8, 8), (8, 1, 3, 3), {"num_group": 8}),
        ((1, 8, 8, 2), (4, 3, 3, 2), {"layout": "NHWC"}),
    ],
)
def test_convolution(data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> None:
    kernel = weight[1:-1] if "layout" in attrs else weight[2:]
    inputs = _inputs(data, weight, weight[0])
    layer_plans.verify("Convolution", {"kernel": kernel, "num_filter": weight[0], **attrs}, inputs)


@pytest.mark.parametrize(
    ("data", "weight", "attrs"),
    [
        ((2, 3, 6, 5), (3, 4, 3, 3), {}),
        ((1, 4, 7, 7), (4, 5, 3, 3), {"pad": (1, 1), "dilate": (2, 2)}),
        ((2, 4, 6, 6), (4, 4, 3, 3), {"num_group": 2, "pad": (1, 1)}),
        ((1, 3, 6, 5), (3, 4, 3, 3), {"stride": (2, 2)}),
    ],
)
def test_deconvolution(data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> None:
    filters = weight[1] * attrs.get("num_group", 1)
    settings = {"kernel": weight[2:], "num_filter": filters, "no_bias": False, **attrs}
    layer_plans.verify("Deconvolution", settings, _inputs(data, weight, filters))


def test_sums_of_many_products_are_near_those_in_float64() -> None:
    data, weight, bias = _inputs((1, 64, 5, 5), (4, 64, 3, 3), 4)
    op, attrs = operators.get("Convolution"), {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)}
    p = op.Param.parse(attrs)
    output = np.empty((1, 4, 5, 5), np.float32)
    layer_plans.run(
        layer_plans.prepare(op, p, [data, weight, bias], [output]), [data, weight, bias], [output]
    )
    (expected,) = op.reference(p, [x.astype(np.float64) for x in (data, weight, bias)], None)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=3e-5)


def test_scratch_memory_is_that_of_small_copies() -> None:
    data, weight, bias = inputs = _inputs((1, 2, 100, 8), (4, 2, 3, 3), 4)
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "num_filter": 4})
    plan = layer_plans.prepare(op, p, inputs, [np.empty((1, 4, 98, 6), np.float32)])
    copies = 4 * (data.size + 2 * weight.size) + 1024
    assert scratch_bytes(plan) <= copies
