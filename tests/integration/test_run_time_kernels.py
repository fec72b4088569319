# SPDX-License-Identifier: Apache-2.0
"""`mx.rtc`: kernels whose source a program brings, compiled for a real GPU and run on a fake one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mx_operators_cuda", reason="mx-operators-cuda is not installed")

from testkit import cuda_emulator, fake_machine

PROGRAM = """
import numpy as np
import mx

source = r'''
extern "C" __global__ void axpy(const float* x, float* y, float alpha) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  y[i] += alpha * x[i];
}
template <typename DType> __global__ void grid(DType* out, int n, char kind) {
  const int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
  out[y * n + x] = DType(kind) * (x + 10 * y);
}
'''
module = mx.rtc.CudaModule(source, exports=["grid<float>", "grid<double>"])
axpy = module.get_kernel("axpy", "const float* x, float* y, float alpha")
x, y = mx.nd.ones((10,), ctx=mx.gpu(0)), mx.nd.zeros((10,), ctx=mx.gpu(0))
for step in range(3):
    axpy.launch([x, y, 3.0], mx.gpu(0), (1, 1, 1), (10, 1, 1))
    y *= 2
np.testing.assert_array_equal(y.asnumpy(), np.full(10, 42))

for kind, dtype in (("float", "float32"), ("double", "float64")):
    grid = module.get_kernel(f"grid<{kind}>", f"{kind}*, int, char")
    out = mx.nd.zeros((6, 8), ctx=mx.gpu(1), dtype=dtype)
    grid.launch((out, 8, -2), mx.gpu(1), (2, 3, 1), (4, 2, 1))
    rows, columns = np.indices((6, 8))
    np.testing.assert_array_equal(out.asnumpy(), -2 * (columns + 10 * rows))

try:
    module.get_kernel("scale", "float*")
except mx.MXNetError as error:
    print(error)
try:
    axpy.launch([x, mx.nd.ones((10,)), 1], mx.gpu(0), (1, 1, 1), (10, 1, 1))
except mx.MXNetError as error:
    print(error)
assert mx.runtime.Features().is_enabled("CUDA_RTC") and mx.runtime.Features().is_enabled("NCCL")
"""


@pytest.mark.long
@pytest.mark.timeout(280)
@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="there is no g++, which builds the kernels")
def test_launches(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    machine = fake_machine.Machine(tmp_path_factory, pytestconfig)
    said = machine.run(PROGRAM, timeout=240, FAKE_CUDA_DELAY="100").splitlines()
    assert said == [
        "the source has no kernel 'scale'. A kernel is extern \"C\", or named in exports. "
        "[scale] [gpu(0)] cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): named symbol not found",
        "[axpy] [gpu(0)] argument 1 lies on cpu(0)",
    ]


def test_sources_compile_for_a_real_gpu() -> None:
    from mx_core.errors import MXNetError
    from mx_operators_cuda import nvrtc
    from mx_operators_cuda.user_kernels import kernels_of

    try:
        nvrtc.library()
    except MXNetError as error:
        pytest.skip(str(error))
    source = PROGRAM.split("r'''")[1].split("'''")[0]
    made: Any = nvrtc.compile_module(source, "sm_90", ("--use_fast_math",), ("grid<float>",))
    code, symbols = made
    assert code[:4] == b"\x7fELF" and symbols["grid<float>"].startswith("_Z4gridIf")
    assert kernels_of(code, symbols) == ["axpy", "grid<float>"]
    with pytest.raises(nvrtc.CompileError, match=r"\[source\] NVRTC, sm_90: .*\n.*nothing"):
        nvrtc.compile_module('extern "C" __global__ void a() { nothing(); }')
