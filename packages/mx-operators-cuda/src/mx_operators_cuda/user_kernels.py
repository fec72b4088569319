# SPDX-License-Identifier: Apache-2.0
"""Kernels whose source a program brings: compiled at run time, launched in the order of the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from mx_core import services
from mx_core.context import Context
from mx_core.errors import ArgumentError, MXNetError
from mx_operators_cuda import device
from mx_operators_cuda.launch import architecture

#: an array that is read, an array that is written, or a number as the bytes that the kernel takes
Argument = tuple[int, bool] | bytes
#: limits of every GPU that NVRTC 13 compiles for: blocks per axis, threads per axis and of a block
#: Source: NVIDIA, CUDA C++ Programming Guide 13.0, technical specifications per compute capability
_GRID, _BLOCK, _THREADS = ((1 << 31) - 1, 65535, 65535), (1024, 1024, 64), 1024
#: KiB of shared memory that a block may have, by capability. Source: the same table
_SHARED = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227,
           "sm_103": 227, "sm_110": 227, "sm_120": 99, "sm_121": 99}  # fmt: skip


class SourceModule:
    """Kernels of one source, compiled for the GPUs that run them.

    Threads: any.

    Parameters
    ----------
    source : str
        CUDA C++.
    options : sequence of str
        For NVRTC, such as `--use_fast_math`.
    exports : sequence of str
        Kernels that are not `extern "C"`.

    Raises
    ------
    CompileError  the source is refused; the message has the compiler's log
    MXNetError    there is no GPU, or no NVRTC
    """

    def __init__(self, source: str, options: Sequence[str] = (), exports: Sequence[str] = ()) -> None:
        device.require()
        self._source = source, tuple(options), tuple(exports)
        self._compiled(0)

    def _compiled(self, number: int) -> tuple[bytes, dict[str, str]]:
        from mx_operators_cuda import nvrtc

        source, options, exports = self._source
        return nvrtc.compile_module(source, architecture(number), options, exports)

    def check(self, name: str) -> None:
        """Loads a kernel on gpu(0).

        Raises
        ------
        MXNetError  there is no kernel of this name
        """
        self._kernel(name, 0)

    def _kernel(self, name: str, number: int) -> Any:
        code, symbols = self._compiled(number)
        kernel = _kernel(symbols.get(name, name), code)
        try:
            kernel.load(number)
        except MXNetError as error:
            if "CUDA_ERROR_NOT_FOUND" not in str(error):
                raise
            known = ", ".join(kernels_of(code, symbols))
            has = f"; it has {known}" if known else ""
            raise MXNetError(
                f'the source has no kernel {name!r}{has}. A kernel is extern "C", or named in exports. {error}'
            ) from error
        return kernel

    def launch(
        self,
        name: str,
        context: Context,
        arguments: Sequence[Argument],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        invoke: Any,
        priority: int = 0,
    ) -> None:
        """Pushes a launch; asynchronous. What the kernel does wrong surfaces where an array that it writes is read.

        Parameters
        ----------
        arguments : sequence of (int, bool) or bytes
            Handles of arrays and whether they are written; numbers as bytes, eight at most.
        grid, block : (int, int, int)
            Blocks of the grid and threads of a block, of three axes each.
        shared_bytes : int
            Memory that the kernel declares as `extern __shared__`.
        invoke : capsule `mx.invoke.v1`
            Whose arrays they are.

        Raises
        ------
        ArgumentError  no GPU launches such a grid or block
        MXNetError     there is no such kernel or GPU, it has not so much shared memory, or an array lies elsewhere
        """
        from mx_operators_cuda import _native

        device.require(context)
        _check_extents(name, grid, block)
        given = [
            (0, False, int.from_bytes(one, "little")) if isinstance(one, bytes) else (*one, 0)
            for one in arguments
        ]
        kernel = self._kernel(name, context.device_id)
        try:
            _native.launch(
                services.engine().capsule, invoke, kernel, name=name, gpu=context.device_id, grid=grid, block=block,
                shared_bytes=shared_bytes, arguments=given, priority=priority,
            )  # fmt: skip
        except MXNetError as error:
            if "cuFuncSetAttribute" not in str(error):
                raise
            raise MXNetError(
                f"[{name}] {context}: grid {grid}, block {block}, {shared_bytes} bytes of shared memory"
                f"{_shared_limit(context.device_id)}: {error}"
            ) from error


def kernels_of(code: bytes, symbols: Mapping[str, str]) -> list[str]:
    """Names of the kernels of a CUBIN, each of which has a section; none for other code.

    Parameters
    ----------
    symbols : dict of str to str
        By the names under which `exports` has them.
    """
    called = {symbol: export for export, symbol in symbols.items()}
    found = {name.decode() for name in re.findall(rb"\0\.text\.(\w+)(?=\0)", code)}
    return sorted(called.get(name, name) for name in found)


def _check_extents(name: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    for what, given, limits in (("grid", grid, _GRID), ("block", block, _BLOCK)):
        if any(extent > limit for extent, limit in zip(given, limits, strict=True)):
            raise ArgumentError(f"[{name}] {what} {given}: at most {limits}")
    if prod(block) > _THREADS:
        raise ArgumentError(f"[{name}] block {block}: {prod(block)} threads, at most {_THREADS}")


def _shared_limit(number: int) -> str:
    limit = _SHARED.get(architecture(number))
    return "" if limit is None else f", at most {limit << 10} with what the kernel declares"


@cache  # a kernel that may still be launched is never unloaded
def _kernel(symbol: str, code: bytes) -> Any:
    from mx_operators_cuda import _native

    return _native.Kernel(symbol, code)
