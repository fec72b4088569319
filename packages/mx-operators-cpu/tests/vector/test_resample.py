# SPDX-License-Identifier: Apache-2.0
"""Interpolation and adaptive pooling against their references: extents, types, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import vector_plans as plans

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
