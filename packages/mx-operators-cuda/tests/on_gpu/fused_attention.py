# SPDX-License-Identifier: Apache-2.0
"""Attention in inference as one graph of cuDNN, real or the stand-in, against its reference; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, gpu, kernels
from mx_core.errors import NoKernelError
from mx_core.testing.case import make_case
from mx_operators_cuda import cudnn, dnn_attention
from mx_symbol import sym
from mx_symbol.passes.attention import FUSED_ATTENTION
from testkit.device_memory import GpuBench
from testkit.fake_cudnn_log import LOG, REFUSED, told, told_all
from testkit.gpu_kernels import ADD, NULL, WRITE

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")

#: whether cuDNN has it
SERVES = cudnn.installed() and not REFUSED and cudnn.version() >= dnn_attention.SINCE
BATCH, HEADS, QUERIES, KEYS, DEPTH, WIDTH = 2, 3, 5, 7, 8, 16
SHAPES = [(BATCH, QUERIES, HEADS * DEPTH), (BATCH, KEYS, HEADS * DEPTH), (BATCH, KEYS, HEADS * WIDTH)]
PARAMS = {"heads": HEADS, "scale": 0.5}


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def prepared(shapes: list[Any], dtype: str, params: dict[str, Any], bench: GpuBench) -> Any:
    """The case, and its plan; None where there is no kernel."""
    case = make_case(FUSED_ATTENTION, params, shapes, dtype=dtype)
    try:
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
    except NoKernelError:
        return case, None
    assert made.variant == "cudnn"
    return case, made.plan


if SERVES:

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_numbers(dtype: str, bench: GpuBench) -> None:
        """cuDNN's, and for a request to add those of our own kernels."""
        case, plan = prepared(SHAPES, dtype, PARAMS, bench)
        before = [np.full(spec.shape, 3, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]
        wanted = case.reference([x.astype(np.float64) for x in case.inputs])[0]
        for request in (WRITE, ADD, NULL):
            found = bench.run(plan, case.inputs, before, [request], (), [])[0].astype(np.float64)
            expected = (
                before[0].astype(np.float64) if request == NULL else wanted + (3 if request == ADD else 0)
            )
            np.testing.assert_allclose(found, expected, rtol=0.03, atol=0.03)

    def test_several_long_rows(bench: GpuBench) -> None:
        """Our own kernels, where rows of the softmax are cut."""
        case, plan = prepared([(1, 2, 16), (1, 9000, 16), (1, 9000, 8)], "float16", {"heads": 2}, bench)
        before = [np.full(spec.shape, 3, np.float16) for spec in case.outputs]
        wanted = case.reference([x.astype(np.float64) for x in case.inputs])[0]
        found = bench.run(plan, case.inputs, before, [ADD], (), [])[0].astype(np.float64)
        np.testing.assert_allclose(found, wanted + 3, rtol=0.02, atol=0.02)


@told_all
def test_arguments(bench: GpuBench) -> None:
    """Heads side by side, as strides; one run for a request to write, none for the others."""
    told()
    case, plan = prepared(SHAPES, "float16", PARAMS, bench)
    before = [np.zeros(spec.shape, np.float16) for spec in case.outputs]
    for request in (WRITE, ADD, NULL):
        bench.run(plan, case.inputs, before, [request], (), [])
    assert told() == [
        "attention float16 q=2,3,5,8/120,8,24,1 k=2,3,7,8/168,8,24,1 v=2,3,7,16/336,16,48,1 o=2,3,5,16/240,16,48,1"
    ]


def test_what_it_does_not_serve(bench: GpuBench) -> None:
    assert prepared(SHAPES, "float32", PARAMS, bench)[1] is None
    assert prepared(SHAPES, "float64", PARAMS, bench)[1] is None
    assert prepared([(0, 5, 24), (0, 7, 24), (0, 7, 48)], "float16", PARAMS, bench)[1] is None


def test_older_versions(bench: GpuBench, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(1, 3, 24)] * 3
    monkeypatch.setattr(cudnn, "version", lambda: (9, 13, 0))
    assert prepared(shapes, "float16", PARAMS, bench)[1] is None
    monkeypatch.setattr(cudnn, "version", lambda: (9, 13, 1))
    assert (prepared(shapes, "float16", {**PARAMS, "scale": 0.25}, bench)[1] is None) is not SERVES


def test_lengths_that_vary(bench: GpuBench) -> None:
    """cuDNN compiles an attention for each size: for some, then the operators stay apart."""
    made = [
        prepared([(1, rows, 8)] * 3, "float16", {"heads": 1}, bench)[1] is not None
        for rows in (*range(1, cudnn.SIZES + 3), 1)
    ]
    assert made == [*(SERVES,) * cudnn.SIZES, False, False, SERVES]


def cut(x: Any) -> Any:
    """(N, T, heads · depth) to (N · heads, T, depth)."""
    x = sym.reshape(x, shape=(0, 0, -4, HEADS, -1))
    return sym.reshape(sym.transpose(x, axes=(0, 2, 1, 3)), shape=(-3, -2))


def test_graphs(bench: GpuBench) -> None:
    """Programs write products and a softmax; one graph of cuDNN takes their place where it can."""
    scores = sym.batch_dot(cut(sym.Variable("q")), cut(sym.Variable("k")), transpose_b=True) * 0.5
    x = sym.batch_dot(sym.softmax(scores), cut(sym.Variable("v")))
    x = sym.reshape(
        sym.transpose(sym.reshape(x, shape=(-4, -1, HEADS, 0, 0)), axes=(0, 2, 1, 3)), shape=(0, 0, -3)
    )
    shapes = dict(zip("qkv", SHAPES, strict=True))
    found = []
    for passes in (None, "none"):
        types = dict.fromkeys("qkv", "float16")
        executor = x.simple_bind(gpu(0), grad_req="null", passes=passes, type_dict=types, **shapes)
        rng = np.random.default_rng(1)
        for array in executor.arg_dict.values():
            array[:] = rng.uniform(-1, 1, size=array.shape)
        if LOG is not None:
            told()
        found.append(executor.forward(is_train=False)[0].asnumpy().astype(np.float64))
        if LOG is not None:
            assert len(told()) == (1 if passes is None and SERVES else 0)
    np.testing.assert_allclose(found[0], found[1], rtol=0.02, atol=0.02)
