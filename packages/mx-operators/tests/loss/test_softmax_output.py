# SPDX-License-Identifier: Apache-2.0
"""Gradients of SoftmaxOutput, recorded from MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testkit import replay

X = np.log(np.float32([[[1, 3], [2, 2]]]))
LABEL = np.float32([[0, 1]])


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"preserve_shape": True, "normalization": "batch"}, [[[-0.375, 0.375], [0.25, -0.25]]]),  # all rows
        ({"preserve_shape": True, "smooth_alpha": 0.25}, [[[-0.5, 0.5], [0.25, -0.25]]]),
        ({"multi_output": True, "smooth_alpha": 0.25}, [[[-1 / 3, 0.3], [1 / 3, -0.3]]]),  # not smoothed
    ],
)
def test_gradient(run: Any, attrs: dict[str, Any], expected: Any) -> None:
    outputs = run("SoftmaxOutput", [X, LABEL], **attrs)
    grad = replay.backward("SoftmaxOutput", attrs, [X, LABEL], outputs, [np.ones_like(X)])[0]
    np.testing.assert_allclose(grad, expected, rtol=1e-6)
