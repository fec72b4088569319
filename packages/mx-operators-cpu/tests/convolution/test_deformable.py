# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions equal their references, wherever their windows point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plans import array, verify

SETTINGS: list[dict[str, Any]] = [
    {"kernel": (3, 3), "pad": (1, 1)},
    {"kernel": (2, 3), "stride": (2, 1), "dilate": (1, 2), "num_group": 2, "num_deformable_group": 2},
    {"kernel": (1, 1), "no_bias": True, "num_deformable_group": 4},
]


def _inputs(
    name: str, attrs: dict[str, Any], rng: np.random.Generator, dtype: str, batch: int, side: int
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    kernel, stride = attrs["kernel"], attrs.get("stride", (1, 1))
    pad, dilate = attrs.get("pad", (0, 0)), attrs.get("dilate", (1, 1))
    out = tuple(
        (side + 2 * p - d * (k - 1) - 1) // s + 1
        for k, s, p, d in zip(kernel, stride, pad, dilate, strict=True)
    )
    points = attrs.get("num_deformable_group", 1) * kernel[0] * kernel[1]
    made = [array(rng, (batch, 4, side, side), dtype), array(rng, (batch, 2 * points, *out), dtype)]
    if "Modulated" in name:
        made.append(array(rng, (batch, points, *out), dtype))
    made.append(array(rng, (6, 4 // attrs.get("num_group", 1), *kernel), dtype))
    if not attrs.get("no_bias"):
        made.append(array(rng, (6,), dtype))
    return made, (batch, 6, *out)


@pytest.mark.parametrize("name", ["DeformableConvolution", "ModulatedDeformableConvolution"])
@pytest.mark.parametrize("attrs", SETTINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("batch", "side"), [(1, 9), (3, 20)])
def test_forward_and_backward(
    name: str, attrs: dict[str, Any], dtype: str, batch: int, side: int, rng: np.random.Generator
) -> None:
    inputs, out = _inputs(name, attrs, rng, dtype, batch, side)
    attrs = {**attrs, "num_filter": 6}
    rtol = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3}[dtype]
    verify(f"_contrib_{name}", attrs, inputs, rtol=rtol, threads=2)
    verify(f"_backward_contrib_{name}", attrs, [array(rng, out, dtype), *inputs], rtol=rtol, threads=2)


@pytest.mark.parametrize("name", ["DeformableConvolution", "ModulatedDeformableConvolution"])
@pytest.mark.parametrize("far", [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -1.0, 0.999999])
def test_windows_that_point_anywhere(name: str, far: float, rng: np.random.Generator) -> None:
    attrs: dict[str, Any] = {"kernel": (3, 3), "num_filter": 6}
    inputs, out = _inputs(name, attrs, rng, "float32", 1, 6)
    inputs[1][0, ::3] = far
    verify(f"_contrib_{name}", attrs, inputs, rtol=2e-5)
    verify(f"_backward_contrib_{name}", attrs, [array(rng, out), *inputs], rtol=2e-5)
