# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradient as graphs of cuDNN, real or the stand-in, against their references; see `plans.py`."""

from __future__ import annotations

from ctypes import addressof, byref, c_uint8
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, gpu, kernels
from mx_core.errors import NoKernelError
from mx_core.testing.case import make_case
from mx_core.testing.tables import Error
from mx_ndarray import nd
from mx_operators_cuda import cudnn, dnn_attention
from mx_symbol import sym
from mx_symbol.passes.attention import FUSED_ATTENTION
from mx_symbol.passes.attention_training import FUSED_ATTENTION_GRADIENT, FUSED_ATTENTION_TRAINING
from testkit.device_memory import GpuBench, Plan, Tensor, at
from testkit.fake_cudnn_log import LOG, REFUSED, told, told_all
from testkit.gpu_kernels import ADD, NULL, WRITE

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")

#: whether cuDNN has it
SERVES = cudnn.installed() and not REFUSED and cudnn.version() >= dnn_attention.SINCE
TRAINS = SERVES and cudnn.version() >= dnn_attention.TRAINS_SINCE
BATCH, HEADS, QUERIES, KEYS, DEPTH, WIDTH = 2, 3, 5, 7, 8, 16
SHAPES = [(BATCH, QUERIES, HEADS * DEPTH), (BATCH, KEYS, HEADS * DEPTH), (BATCH, KEYS, HEADS * WIDTH)]
PARAMS = {"heads": HEADS, "scale": 0.5}
FORWARD, BACKWARD = FUSED_ATTENTION_TRAINING, FUSED_ATTENTION_GRADIENT


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def prepared(
    shapes: list[Any], dtype: str, params: dict[str, Any], bench: GpuBench, op: Any = FUSED_ATTENTION
) -> Any:
    """The case, and its plan; None where there is no kernel."""
    case = make_case(op, params, shapes, dtype=dtype)
    if op is BACKWARD:
        case = _consistent(case, dtype)
    try:
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
    except NoKernelError:
        return case, None
    assert made.variant == "cudnn"
    return case, made.plan


def of_gradient(shapes: list[Any]) -> list[Any]:
    """Shapes of its inputs."""
    query, _, value = shapes
    output = (*query[:2], value[2])
    return [output, *shapes, output, (query[0], HEADS, query[1])]


def _consistent(case: Any, dtype: str) -> Any:
    """With the output and the statistics of query, key and value."""
    forward = make_case(FORWARD, {"heads": case.params.heads, "scale": case.params.scale},
                        [spec.shape for spec in case.specs[1:4]], dtype=dtype)  # fmt: skip
    output, statistics = forward.reference([x.astype(np.float64) for x in case.inputs[1:4]])
    made = (np.asarray(output).astype(case.inputs[0].dtype), np.asarray(statistics, np.float32))
    return replace(case, inputs=(*case.inputs[:4], *made))


if TRAINS:

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("op", [FORWARD, BACKWARD], ids=["forward", "gradient"])
    def test_training(op: Any, dtype: str, bench: GpuBench) -> None:
        """cuDNN's numbers, and our own where results are added, or only some are wanted."""
        shapes = SHAPES if op is FORWARD else of_gradient(SHAPES)
        case, plan = prepared(shapes, dtype, PARAMS, bench, op)
        wanted = case.reference([x.astype(np.float64) for x in case.inputs])
        before = [np.full(spec.shape, 3, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]
        n = len(before)
        for requests in (
            [WRITE] * n,
            [ADD] * n,
            [WRITE, *[NULL] * (n - 1)],
            [NULL, *[WRITE] * (n - 1)],
            [NULL] * n,
        ):
            found = bench.run(plan, case.inputs, before, requests, (), [])
            for got, expected, request in zip(found, wanted, requests, strict=True):
                should = {WRITE: expected, ADD: expected + 3, NULL: 0 * expected + 3}[request]
                np.testing.assert_allclose(got.astype(np.float64), should, rtol=0.03, atol=0.03)

    @told_all
    def test_arguments_of_training(bench: GpuBench) -> None:
        """One run each; the gradient is a graph of products whose tensors are those of the operator."""
        told()
        for op in (FORWARD, BACKWARD):
            case, plan = prepared(
                SHAPES if op is FORWARD else of_gradient(SHAPES), "float16", PARAMS, bench, op
            )
            before = [np.zeros(spec.shape, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]
            for request in (WRITE, ADD, NULL):
                bench.run(plan, case.inputs, before, [request] * len(before), (), [])
        q, k, v = "2,3,5,8/120,8,24,1", "2,3,7,8/168,8,24,1", "2,3,7,16/336,16,48,1"
        y, each = "2,3,5,16/240,16,48,1", "2,3,5,1/15,5,1,1"
        assert told() == [
            f"attention float16 q={q} k={k} v={v} o={y} statistics={each}",
            "graph multiply sum multiply matmul multiply subtract exp reshape matmul matmul subtract multiply multiply "
            f"reshape matmul reshape matmul 1={q} 2=2,3,8,7/168,8,1,24 3=2,3,16,7/336,16,1,48 4={y} 5={y} 6={each} "
            f"7={q} 8={k} 9={v} 10={each}",
        ]


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

    def test_scores_are_memory_of_runs_that_need_them(bench: GpuBench) -> None:
        """cuDNN keeps the scores on the chip; our own steps, where results are added, have them in memory."""
        shapes = [(1, 300, 16), (1, 500, 16), (1, 500, 8)]
        scores = 2 * 300 * 500 * 2
        for op in (FUSED_ATTENTION, FORWARD) if TRAINS else (FUSED_ATTENTION,):
            case, made = prepared(shapes, "float16", {"heads": 2}, bench, op)
            plan, n = at(made, Plan, "mx.plan.v1"), len(case.outputs)
            needed = [
                plan.staging_bytes(addressof(plan), (c_uint8 * n)(*[r] * n), n) for r in (WRITE, NULL, ADD)
            ]
            assert sum(plan.scratch_bytes[i] for i in range(plan.n_scratch)) < scores // 10
            assert needed[:2] == [0, 0] and needed[2] >= scores

    @told_all
    @pytest.mark.parametrize("shift", [0, 2], ids=["aligned", "not aligned"])
    def test_places(shift: int, bench: GpuBench) -> None:
        """One array is query, key and value; cuDNN takes it where its address is a multiple of 16."""
        told()
        case, plan = prepared([SHAPES[0]] * 3, "float16", PARAMS, bench)
        x = case.inputs[0]
        before = bench.memory.stats().bytes_in_use
        block, written = bench.memory.alloc(x.nbytes + 16), bench.memory.alloc(x.nbytes)
        bench.device.copy(
            bench.device.self, bench.stream, block.data + shift, bench.here, x.ctypes.data, bench.host, x.nbytes,
            byref(Error()),
        )  # fmt: skip
        read, wrote = bench.tensor(x, block), bench.tensor(x, written)
        read.data += shift
        bench.launch(plan, (Tensor * 4)(read, read, read, wrote), 3, [WRITE], ())
        bench.wait()
        wanted = case.reference([x.astype(np.float64)] * 3)[0]
        np.testing.assert_allclose(
            bench.copy_out(written, x).astype(np.float64), wanted, rtol=0.03, atol=0.03
        )
        for each in (block, written):
            bench.memory.free(each)
        assert bench.memory.stats().bytes_in_use == before and len(told()) == (0 if shift else 1)

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
    for scale in (0.0, -0.5, float("inf")):
        assert prepared(SHAPES, "float16", {**PARAMS, "scale": scale}, bench)[1] is None
    assert prepared([(0, 5, 24), (0, 7, 24), (0, 7, 48)], "float16", PARAMS, bench)[1] is None
    assert prepared(of_gradient(SHAPES), "float32", PARAMS, bench, BACKWARD)[1] is None
    assert prepared(of_gradient([(2, 1, 24)] * 3), "float16", PARAMS, bench, BACKWARD)[1] is None


def test_older_versions(bench: GpuBench, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(1, 3, 24)] * 3
    monkeypatch.setattr(cudnn, "version", lambda: (9, 13, 0))
    assert prepared(shapes, "float16", PARAMS, bench)[1] is None
    monkeypatch.setattr(cudnn, "version", lambda: (9, 13, 1))
    assert (prepared(shapes, "float16", {**PARAMS, "scale": 0.25}, bench)[1] is None) is not SERVES
    assert prepared(shapes, "float16", PARAMS, bench, FORWARD)[1] is None
    assert prepared(of_gradient(shapes), "float16", PARAMS, bench, BACKWARD)[1] is None


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


def attention() -> Any:
    """As programs write it."""
    scores = sym.batch_dot(cut(sym.Variable("q")), cut(sym.Variable("k")), transpose_b=True) * 0.5
    x = sym.batch_dot(sym.softmax(scores), cut(sym.Variable("v")))
    return sym.reshape(
        sym.transpose(sym.reshape(x, shape=(-4, -1, HEADS, 0, 0)), axes=(0, 2, 1, 3)), shape=(0, 0, -3)
    )


def test_graphs(bench: GpuBench) -> None:
    """Programs write products and a softmax; one graph of cuDNN takes their place where it can."""
    x = attention()
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


def test_training_steps(bench: GpuBench) -> None:
    """In a training step there are two graphs of cuDNN, that of the gradient, too."""
    x, shapes = attention(), dict(zip("qkv", SHAPES, strict=True))
    found = []
    for passes in (None, "none"):
        types = dict.fromkeys("qkv", "float16")
        executor = x.simple_bind(gpu(0), passes=passes, type_dict=types, **shapes)
        rng = np.random.default_rng(1)
        for array in executor.arg_dict.values():
            array[:] = rng.uniform(-1, 1, size=array.shape)
        head = nd.array(rng.uniform(-1, 1, size=(BATCH, QUERIES, HEADS * WIDTH)), ctx=gpu(0), dtype="float16")
        if LOG is not None:
            told()
        outputs = executor.forward(is_train=True)
        executor.backward([head])
        results = [*outputs, *executor.grad_dict.values()]
        found.append([array.asnumpy().astype(np.float64) for array in results])
        if LOG is not None:
            assert len(told()) == (2 if passes is None and TRAINS else 0)
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02)
