# SPDX-License-Identifier: Apache-2.0
"""The penalty of activations that are not sparse: its moving average and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes
from testkit import replay

NAME = "IdentityAttachKLSparseReg"


def test_the_average_moves_in_training_only(run: Any) -> None:
    data, average = np.full((2, 3, 4), 0.5), np.array([0.1, 0.2, 0.3])
    output, _, after = run(NAME, [data, average], train=True, momentum=0.75)
    np.testing.assert_array_equal(output, data)
    np.testing.assert_allclose(after, 0.75 * average + 0.25 * 0.5)
    np.testing.assert_array_equal(run(NAME, [data, average])[2], average)


def test_the_gradient_is_that_of_the_divergence() -> None:
    target, momentum, penalty = 0.2, 0.6, 0.7
    attrs = {"sparseness_target": target, "momentum": momentum, "penalty": penalty}
    rng = np.random.default_rng(0)
    data, average, head = rng.uniform(0.1, 0.9, (4, 3)), rng.uniform(0.1, 0.9, 3), rng.normal(size=(4, 3))

    def divergence(x: Any) -> float:
        mean = momentum * average + (1 - momentum) * x.mean(0)
        kl = target * np.log(target / mean) + (1 - target) * np.log((1 - target) / (1 - mean))
        return float(kl.sum())

    outputs = replay.forward(NAME, attrs, [data, average], True)[:2]
    grad = replay.backward(NAME, attrs, [data, average], outputs, [head, np.zeros(3)])[0] - head
    direction = rng.normal(size=data.shape)
    slope = (divergence(data + 1e-6 * direction) - divergence(data - 1e-6 * direction)) / 2e-6
    # A unit's mean counts as if it were each of its activations.
    expected = penalty * slope * len(data) / (1 - momentum)
    np.testing.assert_allclose((grad * direction).sum(), expected, rtol=1e-6)


def test_rows_of_numbers_are_refused() -> None:
    op = operators.get(NAME)
    with pytest.raises(ShapeError, match="data: expected at least 2 dimensions"):
        infer_shapes(op, op.Param(), [(3,), None])
