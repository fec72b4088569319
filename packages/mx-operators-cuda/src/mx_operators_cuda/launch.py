# SPDX-License-Identifier: Apache-2.0
"""From generated kernels to plans: what each parameter of a kernel is, and how many blocks run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from mx_core import dtypes
from mx_operators_cuda import device

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.kernels import TensorSpec
    from mx_operators_cuda.codegen import KernelSource

#: enough blocks to fill a multiprocessor; the kernel's loop does the rest
BLOCKS_PER_MULTIPROCESSOR = 16


class Kind(IntEnum):
    """What a parameter of a kernel is; the numbers of `csrc/launch_plan.h`."""

    INPUT = 0  #: pointer to an input
    OUTPUT = 1  #: pointer to an output
    REQUEST = 2  #: what is done with an output, int32
    SCALAR = 3  #: a run-time scalar, double
    SCRATCH = 4  #: pointer to scratch memory
    UINT32 = 5  #: the number itself
    UINT64 = 6  #: the number itself
    RANDOM_KEY = 7  #: uint64
    RANDOM_OFFSET = 8  #: uint64


#: kind, and which one or the number
Parameter: TypeAlias = tuple[Kind, int]


@dataclass(frozen=True)
class Launch:
    """A kernel with all that its launch needs but addresses and scalars.

    Parameters
    ----------
    source : KernelSource
    threads : int
        Threads that have something to do.
    parameters : tuple of Parameter
        In the kernel's order.
    most_blocks : int
        Blocks of the grid at most; by default what fills the GPU.
    """

    source: KernelSource
    threads: int
    parameters: tuple[Parameter, ...]
    most_blocks: int = 0

    def blocks(self, multiprocessors: int) -> int:
        """Blocks of the grid on a GPU with that many multiprocessors."""
        most = self.most_blocks or BLOCKS_PER_MULTIPROCESSOR * multiprocessors
        return max(1, min(-(-self.threads // self.source.block), most))


def make_plan(
    name: str,
    context: Context,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    launches: Sequence[Launch],
    *,
    n_scalars: int = 0,
    scratch: Sequence[int] = (),
) -> Any:
    """A plan that launches kernels one after another; compiles and loads them now.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    scratch : sequence of int
        Bytes of each piece of scratch memory.

    Returns
    -------
    capsule `mx.plan.v1`

    Raises
    ------
    MXNetError  the GPU, its driver or NVRTC is missing, or a kernel does not compile
    """
    device.require(context)
    from mx_operators_cuda import _native

    here = context.device_id
    multiprocessors = _native.Device.multiprocessors(here) if launches else 0
    made = [
        (
            _kernel(launch.source, _architecture(here)),
            launch.blocks(multiprocessors), launch.source.block, 0,
            [(int(kind), number) for kind, number in launch.parameters],
        )
        for launch in launches
    ]  # fmt: skip
    return _native.launch_plan(
        name, here, _specs(inputs), _specs(outputs), made, n_scalars=n_scalars, scratch=list(scratch)
    )


def _specs(specs: Sequence[TensorSpec]) -> list[tuple[list[int], int, int]]:
    made = []
    for spec in specs:
        elements = 1
        for size in spec.shape:
            elements *= size
        made.append((list(spec.shape), spec.dtype, elements * dtypes.itemsize(spec.dtype)))
    return made


@lru_cache(maxsize=64)
def _architecture(number: int) -> str:
    from mx_operators_cuda import _native

    major, minor = _native.Device.capability(number)
    return f"sm_{major}{minor}"


@cache  # a kernel that may still be launched is never unloaded
def _kernel(source: KernelSource, architecture: str) -> Any:
    from mx_operators_cuda import _native, nvrtc

    compiled = nvrtc.compile_kernel(source.text, source.name, architecture)
    return _native.Kernel(source.name, compiled.code)
