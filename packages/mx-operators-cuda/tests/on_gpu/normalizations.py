# SPDX-License-Identifier: Apache-2.0
"""Normalizations by cuDNN, real or the stand-in, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import kernels, operators
from mx_core.testing.case import make_case
from mx_operators_cuda import cudnn
from testkit.device_memory import GpuBench
from testkit.fake_cudnn_log import LOG, REFUSED, told, told_all
from testkit.gpu_kernels import ADD, FAKE, NULL, WRITE, compare

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")

#: operator, parameters and shape of the data, whose channels are last
CASES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("BatchNorm", {"axis": -1, "fix_gamma": False}, (3, 4, 5, 8)),
    ("BatchNorm", {"axis": 3, "output_mean_var": True, "momentum": 0.6}, (2, 3, 3, 16)),
    ("BatchNorm", {"eps": 1e-5}, (7, 8)),
    ("BatchNorm", {"axis": 2, "fix_gamma": False, "eps": 0.1}, (2, 6, 8)),
    ("LayerNorm", {}, (4, 5, 32)),
    ("LayerNorm", {"eps": 0.01, "output_mean_var": True}, (6, 40)),
]
TYPES = ["float32", "float16", "bfloat16"]


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def variant(
    bench: GpuBench,
    name: str,
    params: dict[str, Any],
    shapes: list[Any],
    dtype: str = "float32",
    is_train: bool = True,
) -> str:
    case = make_case(name, params, shapes, dtype=dtype, is_train=is_train)
    return kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context, is_train).variant


def gradient_of(name: str, params: dict[str, Any], shape: tuple[int, ...]) -> list[Any]:
    """Inputs of the gradient, among them what the operator writes in training."""
    case = make_case(name, params, [shape], dtype="float64", low=0.2, high=1.2)
    given = [*case.op.inputs(case.params), *case.op.aux(case.params)]
    known = dict(zip(given, case.inputs, strict=True))
    known |= dict(zip(case.op.outputs(case.params), case.reference(), strict=False))
    known["out_grad"] = np.random.default_rng(2).normal(size=shape)
    return [
        np.asarray(known[i], np.float64) for i in operators.get(name).backward_operator().inputs(case.params)
    ]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "params", "shape"), CASES)
def test_numbers(
    name: str, params: dict[str, Any], shape: tuple[int, ...], dtype: str, bench: GpuBench
) -> None:
    """Results, statistics and moving averages; requests that cuDNN does not serve are our own kernels'."""
    if not REFUSED:
        assert variant(bench, name, params, [shape], dtype) == "cudnn"
    if dtype != "float32" and FAKE and len(shape) < 3:
        return
    case = make_case(name, params, [shape], dtype="float64", low=0.2, high=1.2)
    compare(bench, name, params, list(case.inputs), dtype, requests=(WRITE, ADD, NULL))
    given = gradient_of(name, params, shape)
    compare(bench, f"_backward_{name}", params, given, dtype, requests=(WRITE, ADD, NULL), rtol=None)


@told_all
def test_arguments(bench: GpuBench) -> None:
    """Extents and strides; one run for a request to write, none for the others."""
    told()
    params, shape = {"axis": -1, "fix_gamma": False}, (2, 3, 4, 8)
    compare(bench, "BatchNorm", params, [shape], span=(0.2, 1.2), requests=(WRITE, ADD, NULL))
    x = "float32 x=2,8,12,1/96,1,8,8 scale=1,8,1,1/8,1,8,8"
    assert told() == [f"batch norm {x} mean=1,8,1,1/8,1,8,8"]
    compare(
        bench, "_backward_BatchNorm", params, gradient_of("BatchNorm", params, shape), requests=(WRITE, ADD)
    )
    assert told() == [f"gradient of batch norm {x} mean=1,8,1,1/8,1,8,8"]
    compare(bench, "LayerNorm", {}, [(2, 3, 8)], requests=(WRITE,))
    assert told() == ["layer norm float32 x=6,8,1,1/8,1,8,8 scale=1,8,1,1/8,1,8,8 mean=6,1,1,1/1,1,1,1"]


def test_what_our_own_kernels_serve(bench: GpuBench) -> None:
    last = {"axis": -1}
    assert variant(bench, "BatchNorm", {}, [(2, 3, 4, 5)]) == "nvrtc"  # channels first
    assert variant(bench, "BatchNorm", last, [(2, 4, 8)], is_train=False) == "nvrtc"
    assert variant(bench, "BatchNorm", {**last, "use_global_stats": True}, [(2, 4, 8)]) == "nvrtc"
    assert variant(bench, "BatchNorm", {**last, "cudnn_off": True}, [(2, 4, 8)]) == "nvrtc"
    assert variant(bench, "BatchNorm", last, [(2, 4, 8)], "float64") == "nvrtc"
    assert variant(bench, "BatchNorm", last, [(0, 4, 8)]) == "nvrtc"
    assert variant(bench, "LayerNorm", {"axis": 1}, [(2, 4, 8)]) == "nvrtc"
    assert variant(bench, "LayerNorm", {}, [(2, 4, 8)], "float64") == "nvrtc"


def test_sizes_that_vary(bench: GpuBench) -> None:
    """cuDNN compiles a layer for each size: for some, then our own kernels, which serve all sizes, go on."""
    made = [variant(bench, "LayerNorm", {}, [(rows, 24)]) for rows in (*range(1, cudnn.SIZES + 3), 1)]
    served = "nvrtc" if REFUSED else "cudnn"
    assert made == [*(served,) * cudnn.SIZES, "nvrtc", "nvrtc", served]
    assert variant(bench, "LayerNorm", {}, [(2, 40)]) == served


def test_a_result_where_the_data_are(bench: GpuBench) -> None:
    """A result that overwrites the data is our own kernel's: cuDNN does not promise that it may."""
    case = make_case("LayerNorm", {}, [(4, 8)], dtype="float32")
    plan = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context).plan
    wanted = case.reference()
    arrays = [*case.inputs, *(np.zeros_like(y) for y in wanted)]
    for apart in (True, False):
        blocks = [bench.copy_in(array) for array in arrays]
        tensors = [bench.tensor(array, block) for array, block in zip(arrays, blocks, strict=True)]
        if not apart:
            tensors[3].data = blocks[0].data
        if LOG is not None:
            told()
        bench.launch(plan, (type(tensors[0]) * 6)(*tensors), 3, [WRITE] * 3, ())
        bench.wait()
        made = bench.copy_out(blocks[3 if apart else 0], arrays[3])
        np.testing.assert_allclose(made, wanted[0], rtol=1e-4, atol=1e-4)
        assert LOG is None or len(told()) == (1 if apart and not REFUSED else 0)
        for block in blocks:
            bench.memory.free(block)
