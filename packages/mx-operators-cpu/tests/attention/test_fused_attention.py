# SPDX-License-Identifier: Apache-2.0
"""Attention in one pass against its reference, in all types, on few and many keys."""

from __future__ import annotations

import layer_plans
import numpy as np
import pytest
from ml_dtypes import bfloat16

from mx_operators_cpu.library import native

attention = pytest.importorskip("mx_symbol.passes.attention").FUSED_ATTENTION


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12), (bfloat16, 0.02)])
@pytest.mark.parametrize(
    ("batch", "queries", "keys", "heads", "depth", "width", "scale"),
    [
        (2, 5, 7, 3, 4, 6, 0.3),
        (1, 1, 1, 1, 1, 1, 1.0),
        (2, 90, 3000, 2, 16, 8, -0.2),
        (3, 130, 33, 1, 8, 8, 0.5),
    ],
)
def test_heads_lengths_and_scales(
    rng: np.random.Generator, dtype: type, tolerance: float, batch: int, queries: int, keys: int, heads: int, depth: int, width: int,
    scale: float,
) -> None:  # fmt: skip
    shapes = [(batch, queries, heads * depth), (batch, keys, heads * depth), (batch, keys, heads * width)]
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    p = attention.Param.parse({"heads": heads, "scale": scale}, op=attention.name)
    (expected,) = attention.reference(p, inputs, None)
    layer_plans.compare(attention, p, inputs, [expected], rtol=tolerance, atol=tolerance)


def test_large_scores_do_not_overflow(rng: np.random.Generator) -> None:
    inputs = [100 * rng.standard_normal((1, 9, 8)).astype(np.float32) for _ in range(3)]
    p = attention.Param.parse({}, op=attention.name)
    layer_plans.compare(attention, p, inputs, list(attention.reference(p, inputs, None)), rtol=1e-3)


@pytest.mark.parametrize(
    ("shapes", "heads"),
    [
        ([(2, 5, 8), (2, 5, 8), (2, 4, 8), (2, 5, 8)], 1), ([(2, 5, 8), (2, 5, 6), (2, 5, 8), (2, 5, 8)], 1),
        ([(2, 5, 8), (2, 5, 8), (2, 5, 8), (2, 5, 8)], 3), ([(2, 5, 8), (2, 5, 8), (2, 5, 8), (2, 5, 4)], 1),
        ([(10, 8), (10, 8), (10, 8), (10, 8)], 1), ([(2, 5, 8), (2, 5, 8), (2, 5, 8), (2, 5, 8)], 0),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_declined(shapes: list[tuple[int, ...]], heads: int) -> None:
    *inputs, output = [(shape, 0) for shape in shapes]
    assert native.fused_attention(inputs, [output], heads=heads, scale=1.0) is None
