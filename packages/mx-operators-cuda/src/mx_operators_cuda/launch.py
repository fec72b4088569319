# SPDX-License-Identifier: Apache-2.0
"""From generated kernels, matrix products and convolutions to plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from mx_core import services
from mx_operators_cuda import device

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.kernels import TensorSpec
    from mx_operators_cuda.codegen import KernelSource

#: enough blocks to fill a multiprocessor; the kernel's loop does the rest
BLOCKS_PER_MULTIPROCESSOR = 16


class Kind(IntEnum):
    """What a parameter of a kernel is; the numbers of `csrc/parameter.hpp`."""

    INPUT = 0  #: pointer to an input
    OUTPUT = 1  #: pointer to an output
    REQUEST = 2  #: what is done with an output, int32
    SCALAR = 3  #: a run-time scalar, `mx::Scalar`
    SCRATCH = 4  #: pointer to scratch memory
    UINT32 = 5  #: the number itself
    UINT64 = 6  #: the number itself
    RANDOM_KEY = 7  #: `mx::Counter`
    RANDOM_OFFSET = 8  #: the same
    NUMBER = 9  #: the bits of a double, `mx::Scalar`


#: kind, which one or the number, and for a pointer the bytes from where the memory begins
Parameter: TypeAlias = tuple[Kind, int] | tuple[Kind, int, int]


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

    def taking(self, places: Mapping[Parameter, Parameter]) -> Launch:
        """The same kernel on other tensors of a plan."""
        return replace(self, parameters=tuple(places.get(p, p) for p in self.parameters))

    def blocks(self, multiprocessors: int) -> int:
        """Blocks of the grid on a GPU with that many multiprocessors."""
        most = self.most_blocks or BLOCKS_PER_MULTIPROCESSOR * multiprocessors
        return max(1, min(-(-self.threads // self.source.block), most))


@dataclass(frozen=True)
class Product:
    """C = op(A) · op(B) by cuBLAS, or C += it: row-major matrices, `batch` of them.

    Parameters
    ----------
    a, b, c : Parameter
        An input, output or scratch each.
    dtype : int
        Type code of all three, floating-point.
    transposed : (bool, bool)
        Whether A and B lie transposed in memory.
    sizes : (int, int, int)
        Rows of C, columns of C, the extent summed over; none is 0.
    rows, strides : (int, int, int)
        Elements from one row in memory, and from one matrix, to the next, of A, B and C.
    add : bool
        C is added with every request; otherwise only with the request "add".
    """

    a: Parameter
    b: Parameter
    c: Parameter
    dtype: int
    transposed: tuple[bool, bool]
    sizes: tuple[int, int, int]
    rows: tuple[int, int, int]
    strides: tuple[int, int, int] = (0, 0, 0)
    batch: int = 1
    add: bool = False


@dataclass(frozen=True)
class Library:
    """A graph of cuDNN, with steps in its place for runs that it does not serve.

    Parameters
    ----------
    written, added : native plan
        Which writes the results, and which adds the one there is to what is there; the latter may be None.
    places : tuple of Parameter
        Of the tensors, by their ids less one.
    results : tuple of Parameter
        The outputs among them, one or more.
    workspace : Parameter
        Scratch memory: what the plans need, and 256 bytes.
    then : int
        How many of the steps that follow are run only where this one serves.
    instead : int
        How many of the steps after those are run only where it does not: a result is added and there is no plan for
        that, some of several are not wanted, or an address is no multiple of 16.
    """

    written: Any
    added: Any
    places: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    workspace: Parameter
    then: int
    instead: int


@dataclass(frozen=True)
class Finished:
    """C = relu(op(A) · op(B) + bias) by cuBLASLt, with steps in its place for runs that it does not serve.

    Parameters
    ----------
    product : Product
        Of one matrix each; it is added to what is there only where that is requested.
    bias : Parameter or None
        A number per column of C.
    relu : bool
        Only the positive part is kept.
    plan : native plan
        Made for the product.
    workspace : Parameter
        Scratch memory: what the plan needs, and 256 bytes.
    instead : int
        How many of the steps that follow are run only where this one does not serve: the positive part is added to what
        is there, or an address is no multiple of 16.
    """

    product: Product
    bias: Parameter | None
    relu: bool
    plan: Any
    workspace: Parameter
    instead: int


#: what a plan enqueues
Step: TypeAlias = Launch | Product | Library | Finished


@dataclass(frozen=True)
class Condition:
    """What run-time scalars must satisfy: one is at least, or above, another one or 0.

    Parameters
    ----------
    larger : int
        Index of a scalar.
    smaller : int or None
        Index of another; None: 0.
    above : bool
        Equal is not enough.
    refusal : str
        What is said when it does not hold.
    """

    larger: int
    smaller: int | None
    above: bool
    refusal: str


@dataclass(frozen=True)
class Counted:
    """The only output has as many rows as the first steps count, which a run waits for.

    Parameters
    ----------
    steps : int
        Those that count.
    scratch, offset : int
        Where they leave the number, int64: a piece of scratch memory, and bytes from its beginning.
    row : tuple of int
        The extents of a row.
    """

    steps: int
    scratch: int
    offset: int
    row: tuple[int, ...]


def make_plan(
    name: str,
    context: Context,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    steps: Sequence[Step],
    *,
    n_scalars: int = 0,
    scratch: Sequence[int] = (),
    random_blocks: int = 0,
    conditions: Sequence[Condition] = (),
    adds: bool = True,
    counted: Counted | None = None,
    spare: int = 0,
) -> Any:
    """A plan that enqueues kernels, products and convolutions one after another; compiles and loads them now.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    scratch : sequence of int
        Bytes of each piece of scratch memory.
    random_blocks : int
        Random counters that one run takes.
    conditions : sequence of Condition
        Of the scalars, tested at each run.
    adds : bool
        False: a run that is asked to add to an output is refused.
    counted : Counted or None
        What is known of an output without a shape.
    spare : int
        How many of the first pieces of scratch memory only runs have that a graph of cuDNN does not serve.

    Returns
    -------
    capsule `mx.plan.v1`

    Raises
    ------
    MXNetError  the GPU, its driver, NVRTC or cuBLAS is missing, or a kernel does not compile
    """
    device.require(context)
    from mx_operators_cuda import _native

    here = context.device_id
    made = [_native_step(step, here) for step in steps]
    products = any(isinstance(step, Product) for step in steps)
    tested = [(c.larger, -1 if c.smaller is None else c.smaller, c.above, c.refusal) for c in conditions]
    return _native.launch_plan(
        name, here, _specs(inputs), _specs(outputs), made, n_scalars=n_scalars, scratch=list(scratch),
        random_blocks=random_blocks, conditions=tested, adds=adds,
        counted=None if counted is None else (counted.steps, counted.scratch, counted.offset, list(counted.row)),
        spare=spare, storage=services.storage("gpu").capsule if products or spare else None,
    )  # fmt: skip


def _native_step(step: Step, here: int) -> Any:
    if isinstance(step, Launch):
        return _launch(step, here)
    if isinstance(step, Finished):
        return _finished(step)
    return _product(step) if isinstance(step, Product) else _library(step)


def _launch(launch: Launch, here: int) -> Any:
    from mx_operators_cuda import _native

    blocks = launch.blocks(_native.Device.multiprocessors(here))
    parameters = list(map(_native_parameter, launch.parameters))
    return _kernel(launch.source, architecture(here)), blocks, launch.source.block, 0, parameters


def _native_parameter(p: Parameter) -> tuple[int, int, int]:
    return int(p[0]), p[1], p[2] if len(p) > 2 else 0


def _product(product: Product) -> Any:
    from mx_operators_cuda import _native, blas

    blas.load()
    a, b, c = map(_native_parameter, (product.a, product.b, product.c))
    return _native.Product(
        a, b, c, dtype=product.dtype, transposed=product.transposed, sizes=product.sizes,
        rows=product.rows, strides=product.strides, batch=product.batch, add=product.add,
    )  # fmt: skip


def _finished(step: Finished) -> Any:
    from mx_operators_cuda import _native

    product = step.product
    return _native.Finished(
        step.plan, places=[_native_parameter(p) for p in (product.a, product.b, product.c)],
        bias=None if step.bias is None else _native_parameter(step.bias), workspace=_native_parameter(step.workspace),
        instead=step.instead,
    )  # fmt: skip


def _library(step: Library) -> Any:
    from mx_operators_cuda import _native

    return _native.Library(
        step.written, step.added, places=list(map(_native_parameter, step.places)),
        results=list(map(_native_parameter, step.results)), workspace=_native_parameter(step.workspace),
        then=step.then, instead=step.instead,
    )  # fmt: skip


def _specs(specs: Sequence[TensorSpec]) -> list[tuple[list[int], int]]:
    return [(list(spec.shape), spec.dtype) for spec in specs]


@lru_cache(maxsize=64)
def architecture(number: int) -> str:
    """Of the GPU with a number: `sm_90`."""
    from mx_operators_cuda import _native

    major, minor = _native.Device.capability(number)
    return f"sm_{major}{minor}"


@cache  # a kernel that may still be launched is never unloaded
def _kernel(source: KernelSource, architecture: str) -> Any:
    from mx_operators_cuda import _native, nvrtc

    compiled = nvrtc.compile_kernel(source.text, source.name, architecture)
    return _native.Kernel(source.name, compiled.code)
