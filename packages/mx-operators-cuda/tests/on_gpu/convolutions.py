# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN, real or the stand-in, against the operators' references; see `plans.py`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mx_core import kernels
from mx_core.testing.case import make_case
from mx_operators_cuda import cudnn
from testkit.device_memory import GpuBench
from testkit.fake_cudnn_log import LOG, REFUSED, told, told_all
from testkit.gpu_convolutions import CONVOLUTIONS, DECONVOLUTIONS, backward_given
from testkit.gpu_kernels import FAKE, compare

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def variant(
    bench: GpuBench, name: str, params: dict[str, Any], shapes: list[Any], dtype: str = "float32"
) -> str:
    case = make_case(name, params, shapes, dtype=dtype)
    return kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context).variant


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["Convolution", "Deconvolution"])
def test_numbers(name: str, dtype: str, bench: GpuBench) -> None:
    cases = CONVOLUTIONS if name == "Convolution" else DECONVOLUTIONS
    for params, shape in cases if dtype == "float32" or not FAKE else cases[:2]:
        # cuDNN has no sum of a gradient of data and a bias
        own = 0 in shape or (name == "Deconvolution" and not params.get("no_bias", True))
        if not REFUSED:
            assert variant(bench, name, params, [shape], dtype) == ("nvrtc" if own else "cudnn")
        compare(bench, name, params, [shape], dtype)
        given = backward_given(name, params, shape)
        compare(bench, f"_backward_{name}", *given, dtype, rtol=3e-4 if dtype == "float32" else None)


@told_all
def test_arguments(bench: GpuBench) -> None:
    """Strides of both layouts, groups, a bias; one axis becomes two."""
    told()
    compare(bench, *_case({"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)}, (2, 3, 7, 6)), requests=(1, 3))
    assert told() == [
        "y float32 x=2,3,7,6/126,42,6,1 w=5,3,3,3/27,9,3,1 y=2,5,7,6/210,42,6,1 bias=1,5,1,1/5,1,1,1"
    ]  # a result with a bias is added by our own kernel
    plain = {"kernel": (3, 3), "num_filter": 4, "num_group": 2, "no_bias": True}
    compare(bench, *_case({**plain, "layout": "NHWC"}, (2, 7, 6, 4)), requests=(1, 3, 0))
    one = "y float32 x=2,4,7,6/168,1,24,4 w=4,2,3,3/18,1,6,2 y=2,4,5,4/80,1,16,4"
    assert told() == [one, f"{one} added"]
    compare(
        bench,
        "_backward_Convolution",
        *backward_given("Convolution", plain, (1, 4, 5, 5)),
        requests=(1, 3, 0),
    )
    tensors = "float32 x=1,4,5,5/100,25,5,1 w=4,2,3,3/18,9,3,1 y=1,4,3,3/36,9,3,1"
    assert told() == [f"x {tensors}", f"w {tensors}", f"x {tensors} added", f"w {tensors} added"]
    compare(bench, *_case({"kernel": (3,), "num_filter": 2, "no_bias": True}, (1, 2, 6)), requests=(1,))
    assert told() == ["y float32 x=1,2,1,6/12,6,6,1 w=2,2,1,3/6,3,3,1 y=1,2,1,4/8,4,4,1"]


def _case(params: dict[str, Any], shape: tuple[int, ...]) -> tuple[str, dict[str, Any], list[Any]]:
    return "Convolution", params, [shape]


def test_what_our_own_kernels_serve(bench: GpuBench) -> None:
    params = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    assert variant(bench, "Convolution", {**params, "cudnn_off": True}, [(1, 2, 5, 5)]) == "nvrtc"
    assert variant(bench, "Convolution", params, [(0, 2, 5, 5)]) == "nvrtc"
    assert variant(bench, "Convolution", params, [(1, 2, 5, 5)], "float64") == "nvrtc"
    if FAKE:
        assert variant(bench, "Convolution", {**params, "workspace": 0}, [(1, 2, 5, 5)]) == "nvrtc"


def test_a_transpose_that_is_cut_unevenly(bench: GpuBench) -> None:
    """cuDNN has one padding for both sides, and is not asked."""
    params, shape = {"kernel": (3, 3), "num_filter": 2, "target_shape": (6, 6)}, (1, 2, 5, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert variant(bench, "Deconvolution", params, [shape]) == "nvrtc"
        compare(bench, "Deconvolution", params, [shape])
        compare(bench, "_backward_Deconvolution", *backward_given("Deconvolution", params, shape))


def test_addresses_that_are_not_aligned(bench: GpuBench) -> None:
    """A view that begins within 16 bytes is read by our own kernel."""
    params = {"kernel": (2, 2), "num_filter": 3, "no_bias": True}
    case = make_case("Convolution", params, [(2, 2, 4, 4)], dtype="float32")
    plan = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context).plan
    x, w = case.inputs
    padded = np.concatenate([np.zeros(1, np.float32), x.ravel()])
    y = np.zeros(case.outputs[0].shape, np.float32)
    blocks = [bench.copy_in(array) for array in (padded, w, y)]
    tensors = [bench.tensor(array, block) for array, block in zip((x, w, y), blocks, strict=True)]
    if LOG is not None:
        told()
    for shift in (4, 0):
        tensors[0].data = blocks[0].data + shift
        bench.launch(plan, (type(tensors[0]) * 3)(*tensors), 2, [1], ())
        bench.wait()
        made = bench.copy_out(blocks[2], y)
        if shift:
            np.testing.assert_allclose(made, case.reference()[0], rtol=1e-4, atol=1e-4)
            assert LOG is None or told() == []
    assert LOG is None or bool(REFUSED) or len(told()) == 1
    for block in blocks:
        bench.memory.free(block)
