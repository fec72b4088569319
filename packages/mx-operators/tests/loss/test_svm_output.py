# SPDX-License-Identifier: Apache-2.0
"""SVMOutput on rows in more than one axis; gradients recorded from MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes
from testkit import replay

X = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 10
LABEL = np.float32([[1, 0, 1], [0, 1, 1]])


def test_every_row_of_several_axes_has_a_label() -> None:
    grad = replay.backward("SVMOutput", {"margin": 0.5}, [X, LABEL], [X], [np.ones_like(X)])[0]
    np.testing.assert_allclose(
        grad, [[[1, -0.8], [-0.6, 1.6], [1.8, 0]], [[0, 2.4], [2.6, 0], [3, 0]]], rtol=1e-5, atol=1e-6
    )


def test_shape_of_the_labels() -> None:
    op = operators.get("SVMOutput")
    inputs, _ = infer_shapes(op, op.Param(), [X.shape, None])
    assert inputs[1] == (2, 3)
    with pytest.raises(ShapeError, match="expected rows of scores"):
        infer_shapes(op, op.Param(), [(9,), (9,)])
