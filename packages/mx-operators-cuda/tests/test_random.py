# SPDX-License-Identifier: Apache-2.0
"""NVRTC accepts the kernels of random numbers; their numbers are compared in `on_gpu/operators.py`."""

from __future__ import annotations

from typing import Any

import pytest

from mx_core import dtypes
from mx_operators_cuda.codegen.random import per_counter, write_draw, write_dropout

FLOATS = ("float16", "bfloat16", "float32", "float64")
DRAWS = [(d, t) for d in ("uniform", "normal", "exponential") for t in FLOATS] + [
    ("integers", "int32"), ("integers", "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("distribution", "dtype"), DRAWS)
def test_draws_compile(distribution: str, dtype: str, nvrtc: Any) -> None:
    source = write_draw("draw", distribution, dtypes.code(dtype))
    log = nvrtc.compile_kernel(source.text, source.name, options=("--ptxas-options=-v",)).log
    assert "0 bytes spill stores" in log and "warning" not in log, log


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_compiles(dtype: str, nvrtc: Any) -> None:
    source = write_dropout("dropout", dtypes.code(dtype), 1 / 0.7)
    log = nvrtc.compile_kernel(source.text, source.name).log
    assert "warning" not in log, log


def test_a_counter_yields_16_bytes_of_words() -> None:
    assert per_counter(dtypes.code("float32"), "uniform") == 4
    assert per_counter(dtypes.code("float64"), "uniform") == 2
    assert per_counter(dtypes.code("int32"), "integers") == 2
