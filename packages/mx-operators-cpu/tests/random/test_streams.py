# SPDX-License-Identifier: Apache-2.0
"""Arrays that no cache holds: results written past the caches, wherever the output begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plans import WRITE, run

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import evaluate, trace
from mx_operators_cpu.library import native

N = 3_300_037  # two of them are more than any limit; no multiple of a vector
SPECIAL = (0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38)


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positive numbers with special ones among them, in places far apart."""
    rng = np.random.default_rng(0)
    made = [rng.uniform(0.1, 4, N).astype(np.float32) for _ in range(3)]
    for i, x in enumerate(made):
        x[1000 + i * 7 :: 300_000][: len(SPECIAL)] = SPECIAL
    return made[0], made[1], made[2]


def placed(shape: tuple[int, ...], offset: int) -> np.ndarray:
    """Memory that begins `offset` elements behind the begin of a cache line."""
    memory = np.empty(int(np.prod(shape)) + 32, np.float32)
    start = -memory.ctypes.data % 64 // 4 + offset
    return memory[start : start + int(np.prod(shape))].reshape(shape)


FUNCTIONS: list[tuple[str, int, Callable[..., Any]]] = [
    ("relu", 1, X.relu),
    ("exp", 1, X.exp),
    ("log", 1, X.log),
    ("tanh", 1, X.tanh),
    ("sigmoid", 1, X.sigmoid),
    ("maximum", 2, X.maximum),
    ("add", 2, lambda a, b: a + b),
    ("a number less", 1, lambda a: 2.0 - a),
    ("compare", 2, lambda a, b: a < b),
    ("where", 3, X.where),
    ("several steps", 2, lambda a, b: X.tanh(a * b) + a),
]


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize(("name", "n", "function"), FUNCTIONS)
def test_long_arrays(
    name: str, n: int, function: Callable[..., Any], offset: int, arrays: tuple[np.ndarray, ...]
) -> None:
    expression, inputs = trace(function, n), arrays[:n]
    out = placed((N,), offset)
    plan = native.expression_plan(expression.serialized, [((N,), 0)] * n, [((N,), 0)])
    run(plan, inputs, [out], [WRITE], threads=2)
    with np.errstate(all="ignore"):
        (want,) = evaluate(expression, inputs)
    np.testing.assert_allclose(out, want, rtol=2e-6, err_msg=name)


@pytest.mark.parametrize("width", [1024, 1000, 3])
def test_rows(width: int) -> None:
    rng = np.random.default_rng(1)
    shape = (4_200_000 // width, width)
    x, row = (rng.standard_normal(s).astype(np.float32) for s in (shape, (1, width)))
    out = placed(shape, 0)
    plan = native.expression_plan(
        trace(lambda a, b: a + b, 2).serialized, [(shape, 0), ((1, width), 0)], [(shape, 0)]
    )
    run(plan, [x, row], [out], [WRITE], threads=2)
    np.testing.assert_array_equal(out, x + row)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_reversed_rows(dtype: str) -> None:
    code, width = dtypes.code(dtype), 8001
    rows = 12_800_000 // width // np.dtype(dtype).itemsize
    x = (np.arange(rows * width) % 251).astype(dtype).reshape(rows, width)
    out, shape = np.empty_like(x), (rows, width)
    move = (0, 0, shape, (width, -1), (width, 1), width - 1, 0)
    run(native.move_plan([(shape, code)], [(shape, code)], [move]), [x], [out], [WRITE], threads=2)
    np.testing.assert_array_equal(out, x[:, ::-1])


def test_joined_rows() -> None:
    a, b = (np.arange(1000 * n, dtype=np.float32).reshape(1000, n) for n in (3001, 2500))
    out, inputs = np.empty((1000, 5501), np.float32), [((1000, 3001), 0), ((1000, 2500), 0)]
    moves = [
        (i, 0, shape, (shape[1], 1), (5501, 1), 0, at)
        for i, ((shape, _), at) in enumerate(zip(inputs, (0, 3001), strict=True))
    ]
    run(native.move_plan(inputs, [(out.shape, 0)], moves), [a, b], [out], [WRITE], threads=2)
    np.testing.assert_array_equal(out, np.concatenate([a, b], 1))
