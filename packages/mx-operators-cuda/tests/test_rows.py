# SPDX-License-Identifier: Apache-2.0
"""Kernels over rows: NVRTC accepts them; numbers are compared in `on_gpu/operators.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.kernels import TensorSpec
from mx_operators_cuda import Launch
from mx_operators_cuda.codegen.rows import RowTensor, write_rows
from mx_operators_cuda.launch import Kind

FOLDS = [
    (Opcode.MAXIMUM, X.trace(lambda x, b, k: x + b * k, 3)),
    (Opcode.ADD, X.trace(lambda x, b, k, m: X.exp(x + b * k - m), 4)),
]
RESULT = X.trace(lambda x, b, k, m, s: X.exp(x + b * k - m) / s, 5)


def source(dtype: str, label: str = "float32") -> Any:
    code = dtypes.code(dtype)
    compute = 1 if dtype == "float64" else 0
    tensors = [RowTensor(code), RowTensor(dtypes.code(label), per_row=True)]
    return write_rows("rows", compute, tensors, RowTensor(code), FOLDS, RESULT)


@pytest.mark.parametrize("stride", [1, 3])
def test_folds_know_the_folds_before_them(stride: int, emulator: Any) -> None:
    """Inputs of both kinds, the position, rows that lie apart, more elements than threads."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 37, stride)).astype(np.float32)
    b = rng.normal(size=(4, stride)).astype(np.float32)
    parameters = (
        (Kind.INPUT, 0), (Kind.INPUT, 1), (Kind.OUTPUT, 0), (Kind.REQUEST, 0),
        (Kind.UINT64, 4 * stride), (Kind.UINT64, 37), (Kind.UINT64, stride),
    )  # fmt: skip
    (found,) = emulator.run(
        Launch(source("float32"), 4, parameters), [x, b], [TensorSpec(x.shape, 0)], threads=4
    )
    z = x.astype(np.float64) + b[:, None, :] * np.arange(37)[None, :, None]
    e = np.exp(z - z.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rows_compile(dtype: str, nvrtc: Any) -> None:
    made = source(dtype, "int32")
    log = nvrtc.compile_kernel(made.text, made.name, options=("--ptxas-options=-v",)).log
    assert "0 bytes spill stores" in log and "warning" not in log, log
