# SPDX-License-Identifier: Apache-2.0
"""`mx.rtc` without a GPU: signatures, checks of arguments, refusals; tests/integration runs kernels."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import mx
from mx.rtc import CudaKernel, CudaModule, _parsed
from mx_core.errors import ArgumentError, DTypeError, MXNetError


class Module:
    """What a compiled source answers; keeps what was launched."""

    def __init__(self) -> None:
        self.launched: list[Any] = []

    def launch(self, *arguments: Any) -> None:
        self.launched.append(arguments)


def kernel(signature: str) -> tuple[CudaKernel, Module]:
    module = Module()
    return CudaKernel(module, "axpy", [_parsed(one) for one in signature.split(",")]), module


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("const float *x", (np.float32, True, True)), ("double*", (np.float64, True, False)), ("  int \n n ", (np.int32, False, False)),
     ("const int64_t", (np.int64, False, True)), ("__half * y", (np.float16, True, False)), ("char c", (np.int8, False, False)),
     ("uint8_t*", (np.uint8, True, False))],
)  # fmt: skip
def test_signatures(text: str, wanted: Any) -> None:
    assert tuple(_parsed(text)) == wanted


@pytest.mark.parametrize("text", ["", "const", "float **x", "float &x", "unsigned int n", "float x[]"])
def test_signatures_that_are_none(text: str) -> None:
    with pytest.raises(
        ValueError, match=r'Invalid function prototype ".*". Must be in the form of "\(const\) type'
    ):
        _parsed(text)


def test_types_that_are_not_supported() -> None:
    with pytest.raises(
        TypeError,
        match="Unsupported kernel argument type const uint32_t n. Supported types are: float, double",
    ):
        _parsed("const uint32_t n")


def test_a_launch_has_handles_and_bytes() -> None:
    axpy, module = kernel("const float*, float*, float, int64_t, uint8_t")
    x, y = mx.nd.ones((3,)), mx.nd.ones((3,))
    axpy.launch([x, y, 0.5, np.int32(-2), True], mx.gpu(1), (1, 2, 3), [4, 5, np.int64(6)], 7)
    name, ctx, given, grid, block, shared, _ = module.launched[0]
    assert (name, ctx, grid, block, shared) == ("axpy", mx.gpu(1), (1, 2, 3), (4, 5, 6), 7)
    numbers = [np.float32(0.5), np.int64(-2), np.uint8(1)]
    assert given == [(x.handle, False), (y.handle, True), *(n.tobytes() for n in numbers)]


def test_what_a_launch_refuses() -> None:
    axpy, module = kernel("const float* x, float* y, int n")
    x, y, one = mx.nd.ones((3,)), mx.nd.ones((3,)), (1, 1, 1)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (([x, y, 1], mx.cpu(), one, one), ArgumentError, r"can only be launched on GPU, got cpu\(0\)"),
        (([x, y], mx.gpu(), one, one), ArgumentError, "expects 3 arguments but got 2"),
        (
            ([x, 3.0, 1], mx.gpu(), one, one),
            ArgumentError,
            "The 1-th argument is expected to be a NDArray but got <class 'float'>",
        ),
        (
            ([x, y, x], mx.gpu(), one, one),
            ArgumentError,
            "The 2-th argument is expected to be a number, but got",
        ),
        (
            ([x, y, 1 << 40], mx.gpu(), one, one),
            ArgumentError,
            "The 2-th argument, 1099511627776, is no int32",
        ),
        (([x, y, float("nan")], mx.gpu(), one, one), ArgumentError, "The 2-th argument, nan, is no int32"),
        (
            ([x.astype("int32"), y, 1], mx.gpu(), one, one),
            DTypeError,
            "The 0-th argument is expected to be float32 but got int32",
        ),
        (
            ([x, y, 1], mx.gpu(), (1, 1), one),
            ArgumentError,
            r"grid_dims must be a tuple of 3 integers from 1 on, got \(1, 1\)",
        ),
        (([x, y, 1], mx.gpu(), one, (0, 1, 1)), ArgumentError, r"block_dims .* got \(0, 1, 1\)"),
        (([x, y, 1], mx.gpu(), one, one, -1), ArgumentError, "shared_mem: expected bytes, got -1"),
    ]
    for arguments, kind, message in wrong:
        with pytest.raises(kind, match=rf"\[CudaKernel axpy\] .*{message}"):
            axpy.launch(*arguments)
    assert not module.launched


@pytest.mark.skipif(mx.num_gpus() > 0, reason="this machine has a GPU")
def test_without_a_gpu() -> None:
    pytest.importorskip("mx_operators_cuda")
    with pytest.raises(MXNetError, match=r"gpu\(0\) cannot be used: "):
        CudaModule("")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mx_operators_cuda.user_kernels", None)
    with pytest.raises(
        MXNetError, match=r"needs mx-operators-cuda, which is not installed: install mx\[cuda\]"
    ):
        CudaModule("")
