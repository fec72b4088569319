# SPDX-License-Identifier: Apache-2.0
"""What tests use of CuPy, on the CUDA driver alone: it works on the fake driver, where CuPy itself cannot.

Arrays of float32 only.
"""

from __future__ import annotations

import ctypes
import os
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

from mx_core import gpu
from mx_ndarray import nd
from mx_operators_cuda import nvrtc

SOURCE = """
extern "C" __global__ void multiply(const float* x, const float* y, float* z, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] * y[i];
}
"""


class Library:
    """The driver, a kernel per GPU, and the current device and stream of each thread."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(os.environ.get("MX_CUDA_DRIVER") or "libcuda.so.1")
        self.current = threading.local()
        self.kernels: dict[int, tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]] = {}
        self.streams_used: list[int] = []

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver, which must succeed."""
        result = getattr(self.driver, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def on(self, device: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]:
        """Context, kernel and a stream of the library's own."""
        if device not in self.kernels:
            from mx_operators_cuda.launch import architecture

            context, module, kernel, stream = (ctypes.c_void_p() for _ in range(4))
            code, symbols = nvrtc.compile_module(SOURCE, architecture(device), (), ())
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.call("cuCtxPushCurrent_v2", context)
            self.call("cuModuleLoadData", ctypes.byref(module), code)
            name = symbols.get("multiply", "multiply").encode()
            self.call("cuModuleGetFunction", ctypes.byref(kernel), module, name)
            self.call("cuStreamCreate", ctypes.byref(stream), 1)
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
            self.kernels[device] = context, kernel, stream
        return self.kernels[device]

    def stream(self, device: int) -> ctypes.c_void_p:
        """The current one: the last that was entered, else the library's own."""
        entered = getattr(self.current, "streams", [])
        found = ctypes.c_void_p(entered[-1]) if entered else self.on(device)[2]
        self.streams_used.append(found.value or 0)
        return found

    def launch(self, device: int, x: int, y: int, z: int, n: int) -> None:
        """z = x y on the current stream."""
        context, kernel, _ = self.on(device)
        values = [ctypes.c_uint64(x), ctypes.c_uint64(y), ctypes.c_uint64(z), ctypes.c_uint32(n)]
        parameters = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
        self.call("cuCtxPushCurrent_v2", context)
        blocks = (n + 63) // 64
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, 64, 1, 1, 0, self.stream(device), parameters, None)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class ndarray:
    """An array of the library."""

    def __init__(
        self, library: Library, device: int, address: int, shape: tuple[int, ...], owner: Any
    ) -> None:
        self.library, self.device = library, device
        self.address, self.shape, self.owner = address, shape, owner
        self.size = 1
        for extent in shape:
            self.size *= extent

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None, **wish: Any) -> Any:
        """The memory is an array's of mx; the consumer's stream waits for the library's."""
        call, event = self.library.call, ctypes.c_void_p()
        call("cuCtxPushCurrent_v2", self.library.on(self.device)[0])
        call("cuEventCreate", ctypes.byref(event), 2)
        call("cuEventRecord", event, self.library.stream(self.device))
        call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return self.owner.to_dlpack_for_read()


class _Entered:
    def __init__(self, library: Library, handle: int | None) -> None:
        self.library, self.handle = library, handle

    def __enter__(self) -> _Entered:
        if self.handle is not None:
            self.library.current.streams = [*getattr(self.library.current, "streams", []), self.handle]
        return self

    def __exit__(self, *error: object) -> None:
        if self.handle is not None:
            self.library.current.streams.pop()


def module() -> Any:
    """CuPy, where it is installed and has a real GPU; else what stands in its place."""
    try:
        import cupy

        if cupy.cuda.is_available() and "MX_CUDA_DRIVER" not in os.environ:
            return cupy
    except ImportError:
        pass
    library = Library()

    def asarray(array: Any) -> ndarray:
        about = array.__cuda_array_interface__
        assert about["typestr"] == "<f4" and about["stream"] is None and about["strides"] is None
        return ndarray(library, array.__dlpack_device__()[1], about["data"][0], about["shape"], array)

    def multiply(x: ndarray, y: ndarray, out: ndarray | None = None) -> ndarray:
        if out is None:
            owner = nd.empty(x.shape, ctx=gpu(x.device))
            out = asarray(owner)
        library.launch(x.device, x.address, y.address, out.address, x.size)
        return out

    made: Any = ModuleType("cupy")
    made.asarray, made.multiply, made.library = asarray, multiply, library
    made.cuda = SimpleNamespace(
        Device=lambda device: _Entered(library, None),
        ExternalStream=lambda handle, device: _Entered(library, handle),
    )
    return made
