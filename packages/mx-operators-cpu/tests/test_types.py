# SPDX-License-Identifier: Apache-2.0
"""Which element types are computed, and which are left to other kernels."""

from typing import Any

import layer_plans
import numpy as np
import pytest
from ml_dtypes import bfloat16

from mx_core import operators

CALLS: list[tuple[str, dict[str, Any], list[tuple[int, ...]]]] = [
    ("Convolution", {"kernel": (3, 3), "num_filter": 8, "pad": (1, 1)}, [(2, 16, 6, 6), (8, 16, 3, 3), (8,)]),
    ("Convolution", {"kernel": (1, 1), "num_filter": 8}, [(2, 16, 6, 6), (8, 16, 1, 1), (8,)]),
    ("FullyConnected", {"num_hidden": 6}, [(5, 12), (6, 12), (6,)]),
    ("FullyConnected", {"num_hidden": 6}, [(1, 4205), (6, 4205), (6,)]),
    ("batch_dot", {}, [(2, 3, 4), (2, 4, 5)]),
    ("Pooling", {"kernel": (2, 2), "pool_type": "avg"}, [(2, 3, 6, 6)]),
    ("Pooling", {"kernel": (2, 2), "pool_type": "max"}, [(2, 3, 6, 6)]),
    ("Pooling", {"kernel": (2, 2), "pool_type": "lp", "p_value": 2}, [(2, 3, 6, 6)]),
    ("softmax", {}, [(4, 9)]),
    ("log_softmax", {"axis": 0, "temperature": 2.0}, [(4, 9)]),
]


@pytest.mark.parametrize(("name", "attrs", "shapes"), CALLS)
def test_bfloat16(
    rng: np.random.Generator, name: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    inputs = [rng.standard_normal(s).astype(bfloat16) for s in shapes]
    layer_plans.verify(name, attrs, inputs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("shape", "axis"), [((4, 9), -1), ((3, 5, 130), 2), ((1, 1), 1)])
def test_bfloat16_layer_norm(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> None:
    inputs = [rng.standard_normal(s).astype(bfloat16) for s in (shape, (shape[axis],), (shape[axis],))]
    layer_plans.verify("LayerNorm", {"axis": axis}, inputs, rtol=0.02, atol=0.02, gradient=False)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 6, 1), (1, 6, 70, 3)])
@pytest.mark.parametrize(("name", "groups"), [("InstanceNorm", 6), ("GroupNorm", 1), ("GroupNorm", 3)])
def test_bfloat16_group_norm(
    rng: np.random.Generator, name: str, groups: int, shape: tuple[int, ...]
) -> None:
    inputs = [rng.standard_normal(s).astype(bfloat16) for s in (shape, (groups,), (groups,))]
    attrs = {"num_groups": groups} if name == "GroupNorm" else {}
    layer_plans.verify(name, attrs, inputs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("is_train", [True, False])
@pytest.mark.parametrize("attrs", [{}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 5, 7, 64), 3),
        ((300, 130), 1),
        ((3, 1), 1),
        ((1, 3), 1),
        ((4, 3, 5, 5), 1),
        ((2, 70, 3), 1),
        ((3, 2), 0),
    ],
)
def test_bfloat16_batch_norm(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int, attrs: dict[str, Any], is_train: bool
) -> None:
    n = shape[axis]
    vectors = [rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(n), rng.uniform(0.5, 2, n)]
    data = (3 + 2 * rng.standard_normal(shape)).astype(bfloat16)
    inputs = [data, *(v.astype(np.float32) for v in vectors)]
    layer_plans.verify("BatchNorm", {"axis": axis, **attrs}, inputs, is_train=is_train, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
@pytest.mark.parametrize(("name", "attrs", "shapes"), CALLS[:3])
def test_other_types_are_declined(
    rng: np.random.Generator, name: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]], dtype: type
) -> None:
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    inputs = [np.ones(s, dtype) for s in shapes]
    outputs = [np.asarray(o) for o in op.reference(p, inputs, None)]
    assert layer_plans.prepare(op, p, inputs, outputs) is None
