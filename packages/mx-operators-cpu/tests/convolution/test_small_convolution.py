# SPDX-License-Identifier: Apache-2.0
"""Convolutions with little work, which loops compute, and those next to them, which oneDNN's primitives do."""

from __future__ import annotations

from typing import Any

import layer_plans
import numpy as np
import pytest
from plans import ADD, WRITE, scratch_bytes

from mx_core import operators
from mx_core.operator import Operator, gradient_of


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


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("data", "weight", "attrs"),
    [
        ((2, 3, 6, 5), (3, 4, 3, 3), {"pad": (1, 1)}),
        ((1, 4, 7, 7), (4, 5, 3, 3), {"pad": (0, 2), "dilate": (2, 2)}),
        ((2, 4, 6, 6), (4, 4, 3, 3), {"num_group": 2}),
        ((1, 3, 6, 5), (3, 4, 3, 3), {"stride": (2, 2)}),
        ((2, 3, 20), (3, 4, 3), {"pad": (1,)}),
        ((1, 2, 4, 4, 5), (2, 4, 2, 3, 2), {"stride": (1, 2, 1)}),
    ],
)
def test_an_infinite_weight_counts_where_data_meet_it_alone(
    data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any], dtype: str, number: float
) -> None:
    filters = weight[1] * attrs.get("num_group", 1)
    x, w, bias = (array.astype(dtype) for array in _inputs(data, weight, filters))
    w[(1, 2, *(0 for _ in weight[2:]))] = number
    op = operators.get("Deconvolution")
    p = op.Param.parse({"kernel": weight[2:], "num_filter": filters, "no_bias": False, **attrs})
    with np.errstate(invalid="ignore"):
        (expected,) = op.reference(p, [x, w, bias], None)
    assert 0 < np.isfinite(expected).sum() < expected.size
    _expect(op, p, [x, w, bias], expected)


def test_an_infinite_weight_in_the_gradient_of_a_convolution_in_float64() -> None:
    x, w, _ = (array.astype(np.float64) for array in _inputs((2, 4, 7, 6), (3, 4, 3, 3), 3))
    w[1, 2, 0, 0] = np.inf
    heads = np.random.default_rng(3).standard_normal((2, 3, 7, 6))
    forward = operators.get("Convolution")
    attrs = {"kernel": (3, 3), "num_filter": 3, "pad": (1, 1), "no_bias": True}
    (node,) = gradient_of(forward, forward.Param.parse(attrs)).nodes
    backward = operators.get(node.op)
    with np.errstate(invalid="ignore"):
        expected, of_weight = backward.reference(node.params, [heads, x, w], None)
    assert 0 < np.isfinite(expected).sum() < expected.size
    _expect(backward, node.params, [heads, x, w], expected, of_weight)


def _expect(op: Operator, p: Any, inputs: list[np.ndarray], *expected: np.ndarray) -> None:
    """Writes and adds outputs."""
    outputs = [np.full_like(array, 7) for array in expected]
    plan = layer_plans.prepare(op, p, inputs, outputs)
    for req, before in ((WRITE, 0), (ADD, 0.5)):
        for array in outputs:
            array[...] = before
        layer_plans.run(plan, inputs, outputs, [req] * len(outputs))
        for got, want in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(got, want + before, rtol=1e-4, atol=1e-4)
