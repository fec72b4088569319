# SPDX-License-Identifier: Apache-2.0
"""Kernels whose source a program brings: compiled at run time, launched in the order of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from mx_core import services
from mx_core.context import Context
from mx_operators_cuda import device
from mx_operators_cuda.launch import architecture

#: an array that is read, an array that is written, or a number as the bytes that the kernel takes
Argument = tuple[int, bool] | bytes


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
        kernel.load(number)
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
        MXNetError  there is no such kernel or GPU, or an array lies elsewhere
        """
        from mx_operators_cuda import _native

        device.require(context)
        given = [
            (0, False, int.from_bytes(one, "little")) if isinstance(one, bytes) else (*one, 0)
            for one in arguments
        ]
        _native.launch(
            services.engine().capsule, invoke, self._kernel(name, context.device_id), name=name,
            gpu=context.device_id, grid=grid, block=block, shared_bytes=shared_bytes, arguments=given,
            priority=priority,
        )  # fmt: skip


@cache  # a kernel that may still be launched is never unloaded
def _kernel(symbol: str, code: bytes) -> Any:
    from mx_operators_cuda import _native

    return _native.Kernel(symbol, code)
