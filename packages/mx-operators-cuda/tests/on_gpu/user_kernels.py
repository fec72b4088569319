# SPDX-License-Identifier: Apache-2.0
"""Kernels whose source a program brings, on a GPU, real or fake; see `plans.py`."""

from __future__ import annotations

import struct
from threading import Event
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu, num_gpus
from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import invoke_capsule, nd
from mx_ndarray.custom import CustomOp, CustomOpProp, register
from mx_operators_cuda.nvrtc import CompileError
from mx_operators_cuda.user_kernels import SourceModule

GPUS = range(min(num_gpus(), 2))
SOURCE = """
extern "C" __global__ void axpy(const float* x, float* y, float alpha, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += alpha * x[i];
}

// every thread of a grid and blocks of three axes writes its place
extern "C" __global__ void places(int* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z, width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  out[(z * height + y) * width + x] = 100 * x + 10 * y + z;
}

template <class T> __global__ void scale(T* x, T by, signed char plus) { x[threadIdx.x] = x[threadIdx.x] * by + plus; }
"""
REVERSED = """
extern "C" __global__ void reversed(const double* x, double* y, long long n) {
  extern __shared__ double kept[];
  kept[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = kept[n - 1 - threadIdx.x];
}
"""


@pytest.fixture(params=GPUS, ids=[f"gpu{i}" for i in GPUS])
def ctx(request: Any) -> Any:
    return gpu(request.param)


@pytest.fixture(scope="module")
def module() -> SourceModule:
    return SourceModule(SOURCE, (), ("scale<float>", "scale<long long>"))


def launch(
    module: SourceModule, name: str, ctx: Any, arguments: Any, grid: Any, block: Any, shared: int = 0
) -> None:
    given = [one if isinstance(one, bytes) else (one[0].handle, one[1]) for one in arguments]
    module.launch(name, ctx, given, grid, block, shared, invoke_capsule())


def axpy(module: SourceModule, ctx: Any, x: Any, y: Any, alpha: float) -> None:
    n = x.size
    numbers = struct.pack("<f", alpha), struct.pack("<i", n)
    launch(module, "axpy", ctx, [(x, False), (y, True), *numbers], (-(-n // 32), 1, 1), (32, 1, 1))


def test_launches_and_operators_take_turns(ctx: Any, module: SourceModule) -> None:
    x, y = nd.arange(100, ctx=ctx), nd.zeros((100,), ctx=ctx)
    for step in range(3):
        x += 1
        axpy(module, ctx, x, y, 2.0)
        y -= step
    wanted = sum(2 * (np.arange(100) + 1 + step) - step for step in range(3))
    np.testing.assert_array_equal(y.asnumpy(), wanted)


def test_an_array_that_is_read_and_written(ctx: Any, module: SourceModule) -> None:
    x = nd.arange(40, ctx=ctx)
    axpy(module, ctx, x, x, 3.0)
    part = x[10:20]  # shares the memory
    axpy(module, ctx, nd.ones((10,), ctx=ctx), part, -1.0)
    wanted = 4 * np.arange(40.0)
    wanted[10:20] -= 1
    np.testing.assert_array_equal(x.asnumpy(), wanted)


def test_three_axes(ctx: Any, module: SourceModule) -> None:
    out = nd.zeros((4, 6, 6), ctx=ctx, dtype="int32")
    launch(module, "places", ctx, [(out, True)], (3, 2, 1), (2, 3, 4))
    z, y, x = np.indices((4, 6, 6))
    np.testing.assert_array_equal(out.asnumpy(), 100 * x + 10 * y + z)


def test_instances_of_templates(ctx: Any, module: SourceModule) -> None:
    x, n = nd.arange(8, ctx=ctx), nd.arange(8, ctx=ctx, dtype="int64")
    launch(
        module,
        "scale<float>",
        ctx,
        [(x, True), struct.pack("<f", 0.5), struct.pack("<b", -3)],
        (1, 1, 1),
        (8, 1, 1),
    )
    by = struct.pack("<q", 1 << 40)
    launch(module, "scale<long long>", ctx, [(n, True), by, struct.pack("<b", 5)], (1, 1, 1), (8, 1, 1))
    np.testing.assert_array_equal(x.asnumpy(), np.arange(8) / 2 - 3)
    np.testing.assert_array_equal(n.asnumpy(), np.arange(8) * (1 << 40) + 5)


@pytest.mark.parametrize("more", [0, 64 << 10])
def test_shared_memory(ctx: Any, more: int) -> None:
    x = nd.arange(64, ctx=ctx, dtype="float64")
    y = nd.zeros((64,), ctx=ctx, dtype="float64")
    arguments = [(x, False), (y, True), struct.pack("<q", 64)]
    launch(SourceModule(REVERSED), "reversed", ctx, arguments, (1, 1, 1), (64, 1, 1), 8 * 64 + more)
    np.testing.assert_array_equal(y.asnumpy(), np.arange(64)[::-1])


class Late(CustomOp):
    """The same numbers, when the test lets it."""

    go = Event()

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert self.go.wait(60)
        self.assign(out_data[0], req[0], in_data[0])


@register("test_late_for_a_kernel")
class LateProp(CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> CustomOp:
        return Late()


def test_a_launch_that_waits_keeps_its_shared_memory() -> None:
    """A later launch of the same kernel that needs less is enqueued before it."""
    module, here = SourceModule(REVERSED), gpu(0)
    late = nd.Custom(nd.arange(64, dtype="float64"), op_type="test_late_for_a_kernel").as_in_context(here)
    made = []
    for x, kilobytes in ((late, 100), (nd.arange(64, ctx=here, dtype="float64"), 60)):
        made.append(nd.zeros((64,), ctx=here, dtype="float64"))
        arguments = [(x, False), (made[-1], True), struct.pack("<q", 64)]
        launch(module, "reversed", here, arguments, (1, 1, 1), (64, 1, 1), kilobytes << 10)
    Late.go.set()
    for y in made:
        np.testing.assert_array_equal(y.asnumpy(), np.arange(64)[::-1])


def test_refusals(ctx: Any, module: SourceModule, monkeypatch: pytest.MonkeyPatch) -> None:
    x = nd.ones((4,), ctx=ctx)
    with pytest.raises(MXNetError, match=r"the source has no kernel 'no_such'.*extern"):
        module.check("no_such")
    with pytest.raises(CompileError, match="nonsense"):
        SourceModule('extern "C" __global__ void nonsense(float* x) { x[0] = nonsense_; }')
    with pytest.raises(ArgumentError, match=r"\[axpy\] \[gpu\(\d\)\] argument 1 lies on cpu\(0\)"):
        axpy(module, ctx, x, nd.ones((4,), ctx=cpu()), 1.0)
    with pytest.raises(MXNetError, match=r"gpu\(99\) cannot be used"):
        axpy(module, gpu(99), x, x, 1.0)
    y = nd.zeros((4,), ctx=ctx)
    for grid, block, said in (
        ((1, 1, 1), (64, 64, 1), r"block \(64, 64, 1\): 4096 threads, at most 1024"),
        ((1, 1, 1), (1, 1, 65), r"block \(1, 1, 65\): at most \(1024, 1024, 64\)"),
        ((1, 65536, 1), (1, 1, 1), r"grid \(1, 65536, 1\): at most \(2147483647, 65535, 65535\)"),
    ):
        with pytest.raises(ArgumentError, match=rf"\[places\] {said}"):
            launch(module, "places", ctx, [(y, True)], grid, block)
    with pytest.raises(
        MXNetError, match=r"grid \(1, 1, 1\), block \(4, 1, 1\), 1048576 bytes of shared memory.*cuFunc"
    ):
        launch(module, "places", ctx, [(y, True)], (1, 1, 1), (4, 1, 1), 1 << 20)
    monkeypatch.setattr("mx_operators_cuda.user_kernels._check_extents", lambda *_: None)  # the driver's turn
    launch(module, "places", ctx, [(y, True)], (1, 1, 1), (2048, 1, 1))
    with pytest.raises(MXNetError, match=r"\[places\] .*cuLaunchKernel.*INVALID_VALUE"):
        y.wait_to_read()
