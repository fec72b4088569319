# SPDX-License-Identifier: Apache-2.0
"""Batches of no examples: outputs of no rows, and gradients of zero for weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import ReferenceContext

CASES: tuple[tuple[str, list[tuple[int, ...]], dict[str, Any], tuple[int, ...]], ...] = (
    ("FullyConnected", [(0, 3), (2, 3), (2,)], {"num_hidden": 2}, (0, 2)),
    ("FullyConnected", [(0, 4, 3), (2, 3), (2,)], {"num_hidden": 2, "flatten": False}, (0, 4, 2)),
    ("Convolution", [(0, 2, 5, 5), (4, 1, 3, 3), (4,)],
     {"kernel": (3, 3), "num_filter": 4, "num_group": 2}, (0, 4, 3, 3)),
    ("Deconvolution", [(0, 2, 3, 3), (2, 4, 2, 2)], {"kernel": (2, 2), "num_filter": 4}, (0, 4, 4, 4)),
    ("Pooling", [(0, 2, 4, 4)], {"kernel": (2, 2), "stride": (2, 2)}, (0, 2, 2, 2)),
    ("InstanceNorm", [(0, 3, 4), (3,), (3,)], {}, (0, 3, 4)),
    ("GroupNorm", [(0, 4, 3), (2,), (2,)], {"num_groups": 2}, (0, 4, 3)),
    ("SoftmaxActivation", [(0, 3, 2)], {}, (0, 3, 2)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "settings", "expected"), CASES)
def test_forward_and_backward(
    name: str, shapes: list[tuple[int, ...]], settings: dict[str, Any], expected: tuple[int, ...]
) -> None:
    op = operators.get(name)
    params = op.Param.parse(settings, op=name)
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    outputs = op.reference(params, inputs, ReferenceContext())
    assert outputs[0].shape == expected
    backward = operators.get(f"_backward_{name}")
    given = dict(zip((*op.arguments, *op.results), (*inputs, *outputs), strict=False))
    given["output"] = outputs[0]
    arguments = [outputs[0] if role == "out_grad" else given[role] for role in backward.arguments]
    grads = backward.reference(params, arguments, ReferenceContext())
    for x, grad in zip(inputs, grads, strict=False):
        np.testing.assert_array_equal(grad, np.zeros_like(x))


def test_batch_norm_keeps_its_moving_averages() -> None:
    op = operators.get("BatchNorm")
    vectors = [np.full(3, i, np.float32) for i in range(1, 5)]
    data = np.ones((0, 3), np.float32)
    y, *_, mean, var = op.reference(op.Param(), [data, *vectors], ReferenceContext(is_train=True))
    assert y.shape == (0, 3)
    np.testing.assert_array_equal((mean, var), vectors[2:])
