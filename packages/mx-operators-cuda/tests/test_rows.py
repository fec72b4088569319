# SPDX-License-Identifier: Apache-2.0
"""Kernels over rows: where elements lie, folds of passes, and long rows in segments; NVRTC accepts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.kernels import TensorSpec
from mx_operators_cuda import folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Operand, Rows
from mx_operators_cuda.launch import Kind, Launch


def rows(where: Rows, dtype: str = "float32", label: str = "float32") -> tuple[list[Launch], list[int]]:
    """A softmax of x + b * k per row, and the logarithm of its divisor."""
    code = dtypes.code(dtype)
    inputs = [Operand((Kind.INPUT, 0), code), Operand((Kind.INPUT, 1), dtypes.code(label), At.ROW)]
    outputs = [Operand((Kind.OUTPUT, 0), code), Operand((Kind.OUTPUT, 1), code, At.ROW)]
    passes = [
        [(Opcode.MAXIMUM, lambda x, b, k, n: x + b * k)],
        [(Opcode.ADD, lambda x, b, k, n, m: X.exp(x + b * k - m)), (Opcode.ADD, lambda *_: 1.0)],
    ]
    return folds.launches(
        "rows", where, inputs, outputs, passes, lambda x, b, k, n, m, s, c: X.exp(x + b * k - m) / s * (c / n),
        lambda x, b, k, n, m, s, c: X.log(s),
    )  # fmt: skip


def expected(x: np.ndarray, b: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The same in float64; `x` is (a row's index before, k, its index behind) and `axis` is 1."""
    z = x.astype(np.float64) + np.expand_dims(b, axis) * np.arange(x.shape[axis])[:, None]
    e = np.exp(z - z.max(axis, keepdims=True))
    total = e.sum(axis, keepdims=True)
    return e / total, np.log(total).squeeze(axis)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("segmented", [False, True])
def test_rows_along_an_axis(
    stride: int, segmented: bool, emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs of both kinds, the position, rows that lie apart, more elements than threads."""
    if segmented:
        monkeypatch.setattr(folds, "_SEGMENT", 9)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 37, stride)).astype(np.float32)
    b = rng.normal(size=(4, stride)).astype(np.float32)
    made, scratch = rows(Rows.along(x.shape, 1))
    assert len(made) == (3 if segmented else 1)
    out = [np.zeros(x.shape, np.float32), np.zeros((4, stride), np.float32)]
    parts = np.full(sum(scratch), 255, np.uint8)
    for launch in made:
        emulator.run(launch, [x, b], out, threads=4, scratch=parts)
    for found, wanted in zip(out, expected(x, b, 1), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("segmented", [False, True])
def test_rows_of_a_channel(segmented: bool, emulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of a channel lie in stretches."""
    if segmented:
        monkeypatch.setattr(folds, "_SEGMENT", 9)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 4, 2, 5)).astype(np.float32)
    b = rng.normal(size=4).astype(np.float32)
    made, scratch = rows(Rows.of(x.shape, 1))
    out = [np.zeros(x.shape, np.float32), np.zeros(4, np.float32)]
    parts = np.full(sum(scratch), 255, np.uint8)
    for launch in made:
        emulator.run(launch, [x, b], out, threads=4, scratch=parts)
    by_channel = np.moveaxis(x, 1, 0).reshape(4, 30)
    result, logarithm = expected(by_channel[:, :, None], b[:, None], 1)
    found = np.moveaxis(out[0], 1, 0).reshape(4, 30)
    np.testing.assert_allclose(found, result[:, :, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(out[1], logarithm[:, 0], rtol=1e-4, atol=1e-6)


def test_long_rows_are_cut_where_they_are_few() -> None:
    assert len(rows(Rows.along((4096, 8192), 1))[0]) == 1
    made, scratch = rows(Rows.of((64, 64, 112, 112), 1))
    assert len(made) == 3 and scratch == [3 * 64 * 8 * 4]
    assert made[0].threads == 64 * 8 * made[0].source.block
    assert "using Index = mx::uint64;" in rows(Rows.along((2, 1 << 31), 1))[0][0].source.text


def test_integers_are_not_folded() -> None:
    x = Operand((Kind.INPUT, 0), dtypes.code("int32"))
    with pytest.raises(TypeError, match=r"\[x\] rows are computed in floating point"):
        folds.launches("x", Rows.along((2, 3), 1), [x], [], (), None, lambda *values: values[0])


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rows_compile(dtype: str, nvrtc: Any) -> None:
    for where in (Rows.along((64, 1000), 1), Rows.of((64, 64, 112, 112), 1)):
        for launch in rows(where, dtype, "int32")[0]:
            source = launch.source
            log = nvrtc.compile_kernel(source.text, source.name, options=("--ptxas-options=-v",)).log
            assert "0 bytes spill stores" in log and "warning" not in log, log


def test_specs_that_are_not_floating() -> None:
    assert folds.floating([TensorSpec((2,), 0), TensorSpec((2,), 12)])
    assert not folds.floating([TensorSpec((2,), 4)]) and not folds.floating([TensorSpec((2,), 0, 7)])
