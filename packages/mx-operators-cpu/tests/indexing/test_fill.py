# SPDX-License-Identifier: Apache-2.0
"""Progressions, diagonals, numbers in parts, rectangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
def test_progressions(dtype: str) -> None:
    for attrs in ({"start": 2.5}, {"start": 1.0, "stop": 7.0, "step": 0.4}, {"start": 9, "stop": -3, "step": -2},
                  {"start": 0, "stop": 700, "repeat": 3}, {"start": 5, "stop": 2}):  # fmt: skip
        plans.verify("_arange", {**attrs, "dtype": dtype}, [], threads=2)
    for attrs in ({"start": 1.0, "stop": 3.0, "num": 7}, {"start": 1.0, "stop": 3.0, "num": 5, "endpoint": False},
                  {"start": 4.0, "stop": 4.0, "num": 3}, {"start": 1.0, "stop": 2.0, "num": 1},
                  {"start": 1.0, "stop": 2.0, "num": 0}, {"start": 0.1, "stop": 0.7, "num": 5000}):  # fmt: skip
        plans.verify("_linspace", {**attrs, "dtype": dtype}, [], threads=2)


@pytest.mark.parametrize("k", [-9, -2, 0, 1, 4, 2**40])
def test_diagonals(rng: np.random.Generator, k: int) -> None:
    plans.verify("_eye", {"N": 3, "M": 5, "k": k}, [])
    plans.verify("_eye", {"N": 0, "k": k}, [])
    x = plans.array(rng, (4, 5, 3), "float16")
    for axes in ((0, 1), (1, 0), (-1, 0)):
        attrs: dict[str, Any] = {"k": k, "axis1": axes[0], "axis2": axes[1]}
        plans.verify("diag", attrs, [x])
        head = np.diagonal(x, min(k, 99), *axes).copy()
        plans.verify("_backward_diag", attrs, [head, x])
    if abs(k) < 99:
        plans.verify("diag", {"k": k}, [plans.array(rng, (4,), "int32")])
        square = plans.array(rng, (4 + abs(k),) * 2)
        plans.verify("_backward_diag", {"k": k}, [square, plans.array(rng, (4,))])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_a_number_in_a_part(rng: np.random.Generator, dtype: str) -> None:
    x = plans.array(rng, (5, 6), dtype)
    plans.verify("_slice_assign_scalar", {"scalar": 3.0, "begin": (1, None), "end": (4, 5)}, [x])
    plans.verify(
        "_slice_assign_scalar", {"scalar": -1.0, "begin": (None, 4), "end": (None, 0), "step": (2, -3)}, [x]
    )
    plans.verify("_slice_assign_scalar", {"scalar": 2.0, "begin": (3,), "end": (3,)}, [x])


def test_rectangles(rng: np.random.Generator) -> None:
    x, like = plans.array(rng, (2, 3, 7, 8)), plans.array(rng, (1, 1, 4, 5))
    for attrs, inputs in (({"num_args": 1, "offset": (1, 2), "h_w": (3, 4)}, [x]),
                          ({"num_args": 2, "center_crop": True}, [x, like]),
                          ({"num_args": 2, "offset": (3, 0)}, [x, like])):  # fmt: skip
        plans.verify("Crop", attrs, inputs)
        height, width = (3, 4) if attrs["num_args"] == 1 else (4, 5)
        plans.verify("_backward_Crop", attrs, [plans.array(rng, (2, 3, height, width)), x])
