# SPDX-License-Identifier: Apache-2.0
"""Kernels on the device, through CuPy: the only module that imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import ArgumentError
from mx_operators_cuda import device, nvrtc

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.kernels import TensorSpec
    from mx_operators_cuda.codegen import KernelSource


def empty(spec: TensorSpec, context: Context) -> Any:
    """A CuPy array with undefined contents, from CuPy's pool."""
    cupy = _cupy(context)
    with cupy.cuda.Device(context.device_id):
        return cupy.empty(spec.shape, dtypes.numpy_dtype(spec.dtype))


def is_array(value: Any, context: Context) -> bool:
    """True for a CuPy array.

    Raises
    ------
    MXNetError  no GPU or no CuPy
    """
    return isinstance(value, _cupy(context).ndarray)


def address(array: Any, where: str, context: Context) -> int:
    """Where a CuPy array begins in device memory.

    Raises
    ------
    ArgumentError  it lies on another device
    """
    if array.device.id != context.device_id:
        raise ArgumentError(f"{where}: expected an array on {context}, got one on gpu({array.device.id})")
    return int(array.data.ptr)


def launch(
    source: KernelSource,
    context: Context,
    blocks: Callable[[int], int],
    threads: int,
    arguments: Sequence[Any],
    stream: Any = None,
) -> None:
    """Enqueues a kernel on `stream`, by default CuPy's current one of the device.

    Parameters
    ----------
    blocks : callable
        From the device's number of multiprocessors to blocks of the grid.
    threads : int
        Threads per block.
    arguments : sequence of numpy scalars
        Passed by value; a pointer as uint64.

    Raises
    ------
    MXNetError  no GPU or no CuPy, or the kernel does not compile
    """
    cupy = _cupy(context)
    with cupy.cuda.Device(context.device_id):
        function, multiprocessors = _load(source, context)
        function((blocks(multiprocessors), 1, 1), (threads, 1, 1), tuple(arguments), stream=stream)


@lru_cache(maxsize=1024)
def _load(source: KernelSource, context: Context) -> tuple[Any, int]:
    """The kernel's function on a device, and that device's multiprocessors."""
    cupy = _cupy(context)
    here = cupy.cuda.Device(context.device_id)
    compiled = nvrtc.compile_kernel(source.text, source.name, f"sm_{here.compute_capability}")
    module = cupy.cuda.function.Module()
    module.load(compiled.code)
    return module.get_function(source.name), int(here.attributes["MultiProcessorCount"])


def _cupy(context: Context) -> Any:
    device.require(context)
    import cupy

    return cupy
