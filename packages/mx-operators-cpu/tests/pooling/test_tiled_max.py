# SPDX-License-Identifier: Apache-2.0
"""Maxima over windows side by side: ties, what no window covers, NaN, gradients that are added."""

from __future__ import annotations

import layer_plans
import numpy as np
import pytest

from mx_core import operators

ADD = 3


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 18, 18), (1, 2, 7, 10), (3, 1, 3, 3), (2, 2, 13, 41)])
@pytest.mark.parametrize("ties", [False, True])
def test_results_and_gradients(size: int, shape: tuple[int, ...], ties: bool) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal(shape).astype("float32")
    x = np.round(x) if ties else x
    x[0, 0, 0, 0] = np.nan  # passed over
    n, c, rows, columns = *shape[:2], shape[2] // size, shape[3] // size
    tiles = x[:, :, : rows * size, : columns * size].reshape(n, c, rows, size, columns, size)
    windows = tiles.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, rows, columns, size * size)
    y = np.nanmax(windows, -1)
    head = rng.standard_normal(y.shape).astype("float32")
    gradient = np.zeros_like(x)
    for place, first in np.ndenumerate(np.nanargmax(windows, -1)):
        row, column = divmod(first, size)
        gradient[place[0], place[1], place[2] * size + row, place[3] * size + column] = head[place]

    settings = {"kernel": (size, size), "stride": (size, size), "pool_type": "max"}
    for name, inputs, expected in (
        ("Pooling", [x], y),
        ("_backward_Pooling", [head, x, y], gradient),
    ):
        op = operators.get(name)
        p = op.Param.parse(settings)
        plan = layer_plans.prepare(op, p, inputs, [expected])
        for threads in (1, 2):
            for request in (1, ADD):
                out = np.full(expected.shape, 2, "float32")
                layer_plans.run(plan, inputs, [out], [request], threads=threads)
                np.testing.assert_array_equal(out, expected + 2 if request == ADD else expected)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_windows_without_a_largest_element_give_their_gradient_to_the_first(value: float) -> None:
    """As MXNet does in float32."""
    x = np.full((1, 1, 4, 4), value, "float32")
    y = np.full((1, 1, 2, 2), np.finfo("float32").min)
    op = operators.get("_backward_Pooling")
    p = op.Param.parse({"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"})
    head, gradient = np.arange(1, 5, dtype="float32").reshape(y.shape), np.empty_like(x)
    layer_plans.run(layer_plans.prepare(op, p, [head, x, y], [gradient]), [head, x, y], [gradient], [1])
    assert gradient[0, 0].tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]]
