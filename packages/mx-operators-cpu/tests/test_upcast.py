# SPDX-License-Identifier: Apache-2.0
"""16-bit types computed in float32: the result of the framework's choice against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from mx_core import _native, dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import ReferenceContext, infer_shapes, infer_types

RNN = {"mode": "lstm", "state_size": 3, "num_layers": 1}
CALLS: list[tuple[str, dict[str, Any], list[tuple[int, ...]]]] = [
    ("Convolution", {"kernel": (3, 3), "num_filter": 8}, [(2, 4, 6, 6), (8, 4, 3, 3), (8,)]),
    ("_backward_Convolution", {"kernel": (3, 3), "num_filter": 8},
     [(2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3)]),
    ("FullyConnected", {"num_hidden": 6}, [(5, 12), (6, 12), (6,)]),
    ("_backward_FullyConnected", {"num_hidden": 6}, [(5, 6), (5, 12), (6, 12)]),
    ("dot", {}, [(3, 4), (4, 5)]),
    ("_linalg_gemm2", {"alpha": 0.5}, [(2, 3, 4), (2, 4, 5)]),
    ("Pooling", {"kernel": (2, 2), "pool_type": "max"}, [(2, 3, 6, 6)]),
    ("_backward_Pooling", {"kernel": (2, 2), "pool_type": "avg"}, [(2, 3, 5, 5), (2, 3, 6, 6), (2, 3, 5, 5)]),
    ("_backward_Pooling", {"kernel": (1, 1), "pool_type": "avg", "global_pool": True},
     [(2, 3, 1, 1), (2, 3, 6, 6), (2, 3, 1, 1)]),
    ("_backward_Pooling", {"kernel": (2, 3), "pool_type": "sum", "pad": (1, 1)},
     [(2, 3, 7, 6), (2, 3, 6, 6), (2, 3, 7, 6)]),
    ("LayerNorm", {"eps": 1e-2}, [(4, 9), (9,), (9,)]),
    ("softmax", {}, [(4, 9)]),
    ("SoftmaxOutput", {}, [(4, 9), (4,)]),
    ("RNN", {**RNN, "p": 0.5, "num_layers": 2}, [(4, 2, 5), (4 * 3 * (5 + 3 + 3 + 3 + 4),), (2, 2, 3), (2, 2, 3)]),
    ("RNN", RNN, [(4, 2, 5), (4 * 3 * (5 + 3 + 2),), (1, 2, 3), (1, 2, 3)]),
]  # fmt: skip


def _buffers(arrays: list[np.ndarray]) -> list[Any]:
    return [(a.view(np.uint16), dtypes.code(a.dtype)) if a.dtype.kind == "V" else a for a in arrays]


def _run(
    name: str, attrs: dict[str, Any], inputs: list[np.ndarray], req: int
) -> tuple[str, list[Any], list[Any]]:
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    shapes = infer_shapes(op, p, [x.shape for x in inputs])[1]
    types = infer_types(op, p, [dtypes.code(x.dtype) for x in inputs])[1]
    outputs = [np.ones(s, dtypes.numpy_dtype(t)) for s, t in zip(shapes, types, strict=True)]
    specs = [[TensorSpec(x.shape, dtypes.code(x.dtype)) for x in xs] for xs in (inputs, outputs)]
    made = prepare(op, p, *specs, cpu(), True)
    assert made.plan is not None
    want = op.reference(p, [x.copy() for x in inputs], ReferenceContext(True, p.scalars))
    given = [np.ascontiguousarray(x) for x in inputs]
    _native.run_plan(made.plan, _buffers(given), _buffers(outputs), [req] * len(outputs), is_train=True,
                     scalars=p.scalars)  # fmt: skip
    return made.variant, outputs + given[len(op.inputs(p)) :], list(want)


def _close(got: Any, want: Any, plus: float, rtol: float) -> None:
    want = np.asarray(want).astype(np.float64) + plus
    scale = max(float(np.abs(want).max(initial=0)), 1.0)
    np.testing.assert_allclose(got.astype(np.float64).reshape(want.shape), want, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
@pytest.mark.parametrize(("name", "attrs", "shapes"), CALLS)
@pytest.mark.parametrize("req", [1, 3])
def test_against_the_reference(
    name: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]], dtype: type, req: int
) -> None:
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal(s).astype(dtype) for s in shapes]
    variant, got, want = _run(name, attrs, inputs, req)
    assert variant == "upcast" or dtype is bfloat16
    for g, w in zip(got, want, strict=True):
        _close(g, w, 1.0 if req == 3 else 0.0, 4e-3 if dtype is np.float16 else 4e-2)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_batch_norm_keeps_its_statistics_in_float32(dtype: type) -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((6, 4, 5)).astype(dtype)
    vectors = [np.abs(rng.standard_normal(4)).astype(np.float32) for _ in range(4)]
    variant, got, want = _run("BatchNorm", {"fix_gamma": False}, [data, *vectors], 1)
    assert variant == ("onednn" if dtype is bfloat16 else "upcast")
    assert [g.dtype for g in got[3:]] == [np.float32] * 2
    for g, w in zip(got, want, strict=True):
        _close(g, w, 0.0, 4e-3 if dtype is np.float16 else 4e-2)
