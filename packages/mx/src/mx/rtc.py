# SPDX-License-Identifier: Apache-2.0
"""`mx.rtc`: CUDA kernels whose source a program brings, compiled at run time by NVRTC."""

from __future__ import annotations

import re as _re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as _np

from mx_core.context import Context
from mx_core.errors import ArgumentError, DTypeError, MXNetError
from mx_ndarray import NDArray, invoke_capsule

__all__ = ["CudaKernel", "CudaModule"]

#: types of arguments, and their size and kind
_TYPES: dict[str, type[_np.generic]] = {
    "float": _np.float32, "double": _np.float64, "__half": _np.float16, "uint8_t": _np.uint8, "int": _np.int32,
    "int32_t": _np.int32, "int8_t": _np.int8, "char": _np.int8, "int64_t": _np.int64,
}  # fmt: skip
_PARAMETER = _re.compile(r"(const)?\s?(\w+)\s?(\*)?\s?(\w+)?")


class _Parameter(NamedTuple):
    """Of a kernel: its type, whether it is an array, and whether that is only read."""

    dtype: type[_np.generic]
    is_array: bool
    is_const: bool


class CudaModule:
    """Kernels of one CUDA source. It is compiled at once, and again for each other kind of GPU that runs it.

    Threads: any.

    Parameters
    ----------
    source : str
        CUDA C++. A kernel is `extern "C" __global__`, or named in `exports`.
    options : str or sequence of str
        For NVRTC, such as `-I/usr/local/cuda/include`.
    exports : str or sequence of str
        Kernels that are not `extern "C"`, such as `axpy<float>`, an instance of a template.

    Raises
    ------
    MXNetError
        There is no GPU, no NVRTC or no mx-operators-cuda; or the source is refused, with the compiler's log.

    Examples
    --------
    >>> source = 'extern "C" __global__ void axpy(const float* x, float* y, float alpha) { ... }'
    >>> axpy = mx.rtc.CudaModule(source).get_kernel("axpy", "const float* x, float* y, float alpha")
    >>> axpy.launch([x, y, 3.0], mx.gpu(0), (1, 1, 1), (10, 1, 1))
    """

    def __init__(
        self, source: str, options: str | Sequence[str] = (), exports: str | Sequence[str] = ()
    ) -> None:
        try:
            from mx_operators_cuda.user_kernels import SourceModule
        except ModuleNotFoundError as error:
            raise MXNetError(
                "[CudaModule] needs mx-operators-cuda, which is not installed: install mx[cuda]"
            ) from error
        options = (options,) if isinstance(options, str) else tuple(options)
        exports = (exports,) if isinstance(exports, str) else tuple(exports)
        self._module = SourceModule(source, options, exports)

    def get_kernel(self, name: str, signature: str) -> CudaKernel:
        """A kernel of the source.

        Parameters
        ----------
        name : str
            Its name, or one of `exports`.
        signature : str
            Its parameters, with or without names: `const float* x, double* y, int n`. A `*` marks an array, `const`
            one that is only read. Types: float, double, __half, uint8_t, int, int32_t, int8_t, char, int64_t.

        Raises
        ------
        ArgumentError  a parameter is not of the form "(const) type (*) (name)"
        DTypeError     a type is none of those above
        MXNetError     the source has no such kernel; says which it has
        """
        parameters = [_parsed(one) for one in signature.split(",")]
        self._module.check(name)
        return CudaKernel(self._module, name, parameters)


def _parsed(text: str) -> _Parameter:
    text = " ".join(text.split())
    match = _PARAMETER.fullmatch(text)
    if match is None or match[2] == "const":
        raise ArgumentError(
            f'[CudaModule.get_kernel] Invalid function prototype "{text}". Must be in the form of '
            '"(const) type (*) (name)"'
        )
    if match[2] not in _TYPES:
        raise DTypeError(
            f"[CudaModule.get_kernel] Unsupported kernel argument type {text}. Supported types are: "
            f"{', '.join(_TYPES)}."
        )
    return _Parameter(_TYPES[match[2]], match[3] is not None, match[1] is not None)


class CudaKernel:
    """A kernel that can be launched; `CudaModule.get_kernel` makes it. Threads: any."""

    def __init__(self, module: Any, name: str, parameters: Sequence[_Parameter]) -> None:
        self._module, self._name, self._parameters = module, name, tuple(parameters)

    def launch(
        self,
        args: Sequence[Any],
        ctx: Context,
        grid_dims: Sequence[int],
        block_dims: Sequence[int],
        shared_mem: int = 0,
    ) -> None:
        """Launches the kernel after everything that its arrays depend on; returns at once.

        What it does wrong, such as a write beside its arrays, surfaces where an array that it writes is read.
        Operations are not recorded by `autograd`.

        Parameters
        ----------
        args : sequence of NDArray and numbers
            An array of the parameter's type on `ctx` for each pointer, a number for each other parameter.
        ctx : Context
            The GPU.
        grid_dims, block_dims : (int, int, int)
            Blocks of the grid, and threads of a block.
        shared_mem : int
            Bytes of memory that the kernel declares as `extern __shared__`.

        Raises
        ------
        ArgumentError  the number, a kind or the place of an argument, a context that is no GPU, or extents that no GPU
                       takes, such as more than 1024 threads in a block
        DTypeError     an array of another type
        MXNetError     CUDA refuses the launch, such as too much shared memory
        """
        if ctx.device_type != "gpu":
            raise self._error(f"Cuda kernel can only be launched on GPU, got {ctx}")
        if len(args) != len(self._parameters):
            raise self._error(f"expects {len(self._parameters)} arguments but got {len(args)}")
        given = [self._argument(i, value) for i, value in enumerate(args)]
        grid, block = self._extents("grid_dims", grid_dims), self._extents("block_dims", block_dims)
        if not 0 <= shared_mem < 1 << 31:
            raise self._error(f"shared_mem: expected bytes, got {shared_mem}")
        self._module.launch(self._name, ctx, given, grid, block, shared_mem, invoke_capsule())

    def _argument(self, i: int, value: Any) -> tuple[int, bool] | bytes:
        parameter = self._parameters[i]
        if parameter.is_array:
            if not isinstance(value, NDArray):
                raise self._error(f"The {i}-th argument is expected to be a NDArray but got {type(value)}")
            if _np.dtype(value.dtype) != parameter.dtype:
                wanted, found = parameter.dtype.__name__, _np.dtype(value.dtype).name
                raise DTypeError(
                    f"[CudaKernel {self._name}] The {i}-th argument is expected to be {wanted} but got {found}"
                )
            if not parameter.is_const and not value.writable:
                raise self._error(f"The {i}-th argument is written, and got a read-only array")
            return value.handle, not parameter.is_const
        if not isinstance(value, (int, float, _np.generic)):
            raise self._error(f"The {i}-th argument is expected to be a number, but got {type(value)}")
        try:
            return _np.array(value, dtype=parameter.dtype).tobytes()
        except (OverflowError, ValueError) as error:
            raise self._error(f"The {i}-th argument, {value!r}, is no {parameter.dtype.__name__}") from error

    def _extents(self, what: str, given: Sequence[int]) -> tuple[int, int, int]:
        if len(given) != 3 or not all(0 < int(extent) < 1 << 31 for extent in given):
            raise self._error(f"{what} must be a tuple of 3 integers from 1 on, got {tuple(given)}")
        x, y, z = map(int, given)
        return x, y, z

    def _error(self, text: str) -> ArgumentError:
        return ArgumentError(f"[CudaKernel {self._name}] {text}")
